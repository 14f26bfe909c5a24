"""Listings of partition directories.

Hive reads the files of the directory itself.  Some engines read files in subdirectories, others refuse them.  So a
listing names the subdirectories, and only `recursive` lists their files, at every level except below hidden names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from catalog.errors import Denied, NotFound, Unavailable
from catalog.hive.listing import NO_DIRECTORY_NS, ListedFile, Listing, Subdirectory, is_hidden
from catalog.hive.unfinished_writes import is_unfinished_work, may_be_unfinished
from server.files.deadlines import Deadlines
from server.files.directories import Directories, RemoteEntry, has_times
from server.files.locations import local_path
from server.files.remote_directories import RemoteDirectories
from server.files.storage import translate_errors
from server.prefetch import run_in_threads

_CHUNK = 16
_TRIES = 3
_SKEW_NS = 10 * 10**9
"""How far another machine's clock may lag: a remote listing counts as started this much earlier."""


class Listings:
    """Lists directories, local ones by the operating system.  Safe to share between threads."""

    def __init__(
        self, properties: dict[str, str] | None = None, *, threads: int = 8, deadlines: Deadlines | None = None
    ) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._remote: Directories = RemoteDirectories(properties or {}, deadlines)
        self._threads = threads

    def list_all(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """List directories, in their order; Unavailable at the first that cannot be listed."""
        return run_in_threads(
            lambda batch: [self.list(location, recursive=recursive) for location in batch],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def list_all_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        """List directories like `list_all`, but yield Denied for one that the server may not list."""
        return run_in_threads(
            lambda batch: [self._list_or_denied(location, recursive=recursive) for location in batch],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def _list_or_denied(self, location: str, *, recursive: bool) -> Listing | Denied:
        try:
            return self.list(location, recursive=recursive)
        except Denied as error:
            return error

    def list(self, location: str, *, recursive: bool = False) -> Listing:
        """List the data files in a directory, and with `recursive` in all subdirectories.

        As in Hive, a missing directory has no files.  If a subdirectory disappears during the listing, it may have
        been renamed with its files, so the server lists again.
        """
        for _ in range(_TRIES):
            try:
                return self._list(location, recursive=recursive)
            except NotFound:
                if not recursive or not self._is_there(location):
                    return _list_missing(location)
        raise Unavailable(f"cannot list {location}: its subdirectories change during the listing")

    def _is_there(self, location: str) -> bool:
        try:
            self._list(location, recursive=False)
        except NotFound:
            return False
        return True

    def _list(self, location: str, *, recursive: bool) -> Listing:
        path = local_path(location)
        with translate_errors("list", location):
            if path is None:
                return self._list_remote(location, recursive=recursive)
            return self._list_local(location, path, recursive=recursive)

    def modified_ns(self, location: str) -> int | None:
        """Get when a file of a directory was last added, removed or renamed; None if the storage does not record it.

        NO_DIRECTORY_NS if the directory does not exist.
        """
        path = local_path(location)
        try:
            with translate_errors("list", location):
                if path is None:
                    return self._remote.find(location).mtime_ns if has_times(location) else None
                return os.stat(path).st_mtime_ns  # noqa: PTH116 - called once per partition and sync
        except NotFound:
            return NO_DIRECTORY_NS

    def _list_local(self, location: str, path: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns(), self.modified_ns(location)
        files: list[ListedFile] = []
        unread: list[str] = []
        below: list[Subdirectory] = []
        pending, visited = [""], set[tuple[int, int]]()
        unfinished: list[int] = []
        while pending:
            prefix = pending.pop()
            if recursive:
                below += _enter(location, path, prefix, visited)
            with os.scandir(os.path.join(path, prefix)) as entries:  # noqa: PTH118 - a Path per file is slow
                for entry in entries:
                    if is_hidden(entry.name):
                        unfinished += _list_work_times(entry)
                    elif entry.is_dir():
                        (pending if recursive else unread).append(f"{prefix}{entry.name}/")
                    elif file := _stat_file(entry, prefix):
                        if file.size:
                            files.append(file)
                        else:
                            unfinished.append(file.mtime_ns)
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=tuple(sorted(name.rstrip("/") for name in unread)),
            below=tuple(sorted(below, key=lambda directory: directory.path)),
            directory_mtime_ns=modified_ns,
            is_being_written=any(may_be_unfinished(mtime_ns, began_ns) for mtime_ns in unfinished),
        )

    def _list_remote(self, location: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns() - _SKEW_NS, self.modified_ns(location)
        files: list[ListedFile] = []
        below: list[Subdirectory] = []
        unfinished: list[int | None] = []
        for entry in self._entries(location, recursive=recursive):
            names = entry.path.split("/")
            if any(map(is_hidden, names)):
                unfinished += [entry.mtime_ns] if any(map(is_unfinished_work, names)) else []
            elif entry.is_directory:
                below.append(Subdirectory(entry.path, entry.mtime_ns if has_times(location) else None))
            elif entry.size and not (entry.may_be_open and may_be_unfinished(entry.mtime_ns, began_ns)):
                files.append(ListedFile(path=entry.path, size=entry.size, mtime_ns=entry.mtime_ns or began_ns))
            else:
                unfinished.append(entry.mtime_ns)
        below.sort(key=lambda directory: directory.path)
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=() if recursive else tuple(directory.path for directory in below),
            below=tuple(below) if recursive else (),
            directory_mtime_ns=modified_ns,
            is_being_written=any(may_be_unfinished(mtime_ns, began_ns) for mtime_ns in unfinished),
            keeps_times=has_times(location),
        )

    def _entries(self, location: str, *, recursive: bool) -> Iterator[RemoteEntry]:
        """List the entries of a remote directory.

        Object stores list all keys below a prefix at once.  With real directories the server never lists hidden ones,
        because they appear and disappear with every job.
        """
        if not recursive or not has_times(location):
            yield from self._remote.entries(location, recursive=recursive)
            return
        pending = [""]
        while pending:
            prefix = pending.pop()
            for entry in self._remote.entries(f"{location.rstrip('/')}/{prefix}", recursive=False):
                relative = replace(entry, path=f"{prefix}{entry.path}")
                pending += [f"{relative.path}/"] if entry.is_directory and not is_hidden(entry.path) else []
                yield relative


def _list_missing(location: str) -> Listing:
    keeps = keeps_times(location)
    return Listing(
        location=location,
        files=(),
        began_ns=time.time_ns(),
        directory_mtime_ns=NO_DIRECTORY_NS if keeps else None,
        keeps_times=keeps,
    )


def _enter(location: str, path: str, prefix: str, visited: set[tuple[int, int]]) -> Iterator[Subdirectory]:
    """Visit a subdirectory; Unavailable when a link leads to a visited one, because its rows would appear twice."""
    stat = os.stat(os.path.join(path, prefix))  # noqa: PTH116, PTH118 - as above
    if (stat.st_dev, stat.st_ino) in visited:
        raise Unavailable(f"cannot list {location}: {prefix} links to a directory that is listed already")
    visited.add((stat.st_dev, stat.st_ino))
    if prefix:
        yield Subdirectory(prefix.rstrip("/"), stat.st_mtime_ns)


def keeps_times(location: str) -> bool:
    """Whether files keep their times when they are moved, and directories have times."""
    return local_path(location) is not None or has_times(location)


def _list_work_times(entry: os.DirEntry[str]) -> list[int]:
    """Get the time of the last change to unfinished work; empty for other hidden names."""
    if not is_unfinished_work(entry.name):
        return []
    try:
        return [entry.stat().st_mtime_ns]
    except FileNotFoundError:
        return []


def _stat_file(entry: os.DirEntry[str], prefix: str) -> ListedFile | None:
    """Describe a file; None if it disappeared during the listing."""
    try:
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return ListedFile(f"{prefix}{entry.name}", stat.st_size, stat.st_mtime_ns, str(stat.st_ino))
