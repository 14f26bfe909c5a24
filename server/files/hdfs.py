"""HDFS through `firn.hdfs`: files and directories as server/files needs them. All calls but moves have a time-out."""

from __future__ import annotations

import io
import threading
from typing import BinaryIO

from firn.hdfs import files
from firn.hdfs.files import HdfsReader, Status
from server.files.deadlines import Deadlines, find_store
from server.files.directories import RemoteEntry
from server.files.read_limits import LISTING_SECONDS, PIECE_BYTES, NotRegular, TooLarge
from server.files.remote import TimedStream

WRITE_SECONDS = 60.0
"""The time-out of a write or a deletion: a name node that fails over takes up to half a minute."""


class HdfsFiles:
    """Implements `server.files.storage.Files`.  Safe to share between threads."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def read(self, location: str, at_most: int) -> bytes:
        def read() -> bytes:
            with _open(location) as file:
                if file.size > at_most:
                    raise TooLarge(location, at_most)
                return file.read()

        return self._deadlines.run(find_store(location), read)

    def write_new(self, location: str, data: bytes) -> None:
        is_abandoned = threading.Event()

        def write() -> None:
            files.write_new(location, data, is_wanted=lambda: not is_abandoned.is_set())

        try:
            self._deadlines.run(find_store(location), write, seconds=WRITE_SECONDS)
        except TimeoutError:
            # The file appears only if the last step, the rename, is what hangs. Then nothing refers to it: the caller
            # has refused its commit. Another try writes under another name.
            is_abandoned.set()
            raise

    def delete(self, location: str) -> None:
        # An abandoned deletion may still happen. It can only hit what nothing refers to, because no name is used twice
        # but that of an image's metadata, which readers build again (docs/decisions/0100).
        self._deadlines.run(find_store(location), lambda: files.delete(location), seconds=WRITE_SECONDS)

    def delete_directory(self, location: str) -> None:
        self._deadlines.run(find_store(location), lambda: files.delete(location, recursive=True), seconds=WRITE_SECONDS)

    def delete_empty_directories(self, location: str) -> None:
        """Delete a directory and those below it where they hold no file, one after the other."""
        store = find_store(location)
        listed = self._deadlines.run(
            store, lambda: files.list_directory(location, recursive=True), seconds=LISTING_SECONDS
        )
        below = sorted((status.path for status in listed if status.is_directory), reverse=True)
        held = {parent for status in listed if not status.is_directory for parent in _list_parents(status.path)}
        for path in (*below, ""):  # a directory sorts before what it holds
            if path not in held:
                at = f"{location.rstrip('/')}/{path}".rstrip("/")
                self._deadlines.run(store, lambda at=at: files.delete(at), seconds=WRITE_SECONDS)  # type: ignore[misc]

    def size(self, location: str) -> int:
        status = self._deadlines.run(find_store(location), lambda: files.get_status(location))
        if status.is_directory:
            raise FileNotFoundError(location)
        return status.size

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        def read() -> tuple[bytes, int]:
            with _open(location) as file:
                start = max(0, file.size - length)
                return file.read_range(start, file.size - start), file.size

        return self._deadlines.run(find_store(location), read)

    def opened(self, location: str) -> BinaryIO:
        store = find_store(location)
        stream = self._deadlines.run(store, lambda: _open(location))
        return io.BufferedReader(TimedStream(stream, self._deadlines, store), PIECE_BYTES)


class HdfsDirectories:
    """Implements `server.files.directories.Directories`."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        listed = self._deadlines.run(
            find_store(location), lambda: files.list_directory(location, recursive=recursive), seconds=LISTING_SECONDS
        )
        return [_describe(status) for status in listed]

    def find(self, location: str) -> RemoteEntry:
        return _describe(self._deadlines.run(find_store(location), lambda: files.get_status(location)))

    def delete(self, location: str) -> None:
        self._deadlines.run(find_store(location), lambda: files.delete(location, recursive=True), seconds=WRITE_SECONDS)

    def can_move(self, location: str, directory: str) -> bool:
        return files.is_on_hdfs(location) and files.can_rename(location, directory)

    def move(self, location: str, to: str) -> None:
        files.make_directories(to.rpartition("/")[0])
        files.rename(location, to)


def _list_parents(path: str) -> list[str]:
    """The directories of a relative path, the listed directory itself among them."""
    return ["", *(path[:at] for at, character in enumerate(path) if character == "/")]


def _open(location: str) -> HdfsReader:
    try:
        return HdfsReader(location)
    except IsADirectoryError as error:
        raise NotRegular(location) from error


def _describe(status: Status) -> RemoteEntry:
    return RemoteEntry(
        path=status.path,
        is_directory=status.is_directory,
        size=status.size,
        mtime_ns=status.mtime_ns,
        may_be_open=status.may_be_open,
    )
