"""Files of object stores, through PyIceberg's FileIO, with a time-out for each read."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from pyiceberg.io import FileIO

from server.files.arrow import ArrowDirectories
from server.files.deadlines import Deadlines, find_store
from server.files.read_limits import PIECE_BYTES, TooLarge


class RemoteFiles:
    """Files that the operating system does not know.  Safe to share between threads."""

    def __init__(self, file_io: FileIO, deadlines: Deadlines) -> None:
        self._io = file_io
        self._deadlines = deadlines

    def read(self, location: str, at_most: int) -> bytes:
        def read() -> bytes:
            with self._io.new_input(location).open() as stream:
                size = _size(stream)
                if size > at_most:
                    raise TooLarge(location, at_most)
                return bytes(stream.read(size))

        return self._deadlines.run(find_store(location), read)

    def write_new(self, location: str, data: bytes) -> None:
        with self._io.new_output(location).create(overwrite=False) as stream:
            stream.write(data)

    def delete(self, location: str) -> None:
        # Without a time-out: an abandoned deletion could still run after the server has lost the right to delete.
        self._io.delete(location)

    def delete_directory(self, location: str) -> None:
        ArrowDirectories(self._io.properties).delete(location)

    def size(self, location: str) -> int:
        return self._deadlines.run(find_store(location), lambda: len(self._io.new_input(location)))

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        def read() -> tuple[bytes, int]:
            file = self._io.new_input(location)
            size = len(file)
            with file.open() as stream:
                start = max(0, size - length)
                stream.seek(start)
                return bytes(stream.read(size - start)), size

        return self._deadlines.run(find_store(location), read)

    def opened(self, location: str) -> BinaryIO:
        """Open a file for reads in large pieces; seeks within one piece need no further request."""
        store = find_store(location)
        stream = self._deadlines.run(store, lambda: self._io.new_input(location).open())
        return io.BufferedReader(TimedStream(stream, self._deadlines, store), PIECE_BYTES)


class TimedStream(io.RawIOBase):
    """A remote stream whose every read has a time-out."""

    def __init__(self, stream: Any, deadlines: Deadlines, store: str) -> None:
        self._stream = stream
        self._deadlines = deadlines
        self._store = store

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._stream.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        data = self._deadlines.run(self._store, lambda: bytes(self._stream.read(len(buffer))))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _size(stream: Any) -> int:
    """Get the length of an opened file, which the store reported when it was opened."""
    stream.seek(0, io.SEEK_END)
    size = int(stream.tell())
    stream.seek(0)
    return size
