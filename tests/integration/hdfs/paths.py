"""Paths on HDFS with the methods of `pathlib.Path` that a test needs, so that one test runs on both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from firn.hdfs import calls, files

if TYPE_CHECKING:
    from hdfs_native import FileWriter

_MS = 1_000_000
_open: dict[str, FileWriter] = {}
"""Files that somebody writes in place, by location."""


@dataclass(frozen=True)
class Stat:
    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, order=True)
class HdfsPath:
    """A file or directory; its text is its location, `hdfs://HOST:PORT/…`."""

    location: str

    def __str__(self) -> str:
        return self.location

    def __truediv__(self, name: str) -> HdfsPath:
        return HdfsPath(f"{self.location.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return self.location.rpartition("/")[2]

    @property
    def parent(self) -> HdfsPath:
        return HdfsPath(self.location.rpartition("/")[0])

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.location.split("/"))

    def as_uri(self) -> str:
        return self.location

    def with_name(self, name: str) -> HdfsPath:
        return self.parent / name

    def is_relative_to(self, other: object) -> bool:
        return f"{self.location}/".startswith(f"{other}/")

    def _status(self) -> files.Status | None:
        try:
            return files.get_status(self.location)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self) -> bool:
        return self._status() is not None

    def is_dir(self) -> bool:
        status = self._status()
        return status is not None and status.is_directory

    def is_file(self) -> bool:
        status = self._status()
        return status is not None and not status.is_directory

    def stat(self) -> Stat:
        status = files.get_status(self.location)
        return Stat(status.size, status.mtime_ns)

    def iterdir(self) -> Iterator[HdfsPath]:
        yield from (self / status.path for status in files.list_directory(self.location))

    def rglob(self, _everything: str) -> Iterator[HdfsPath]:
        with contextlib.suppress(FileNotFoundError):
            yield from (self / status.path for status in files.list_directory(self.location, recursive=True))

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        files.make_directories(self.location)

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            files.delete(self.location)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, to: str) -> HdfsPath:
        files.rename(self.location, to)
        return HdfsPath(to)

    def read_bytes(self) -> bytes:
        with files.HdfsReader(self.location) as file:
            return file.read()

    def write_bytes(self, data: bytes) -> int:
        """Write a new file under its name, as other programs do: without a rename."""
        client, path = calls.connect(self.location)
        self.unlink(missing_ok=True)
        file = calls.call(lambda: client.create(path))
        calls.call(lambda: file.write(data))
        calls.call(file.close)
        return len(data)

    def set_time(self, ns: int) -> None:
        client, path = calls.connect(self.location)
        calls.call(lambda: client.set_times(path, ns // _MS, ns // _MS))

    def touch(self) -> None:
        """Begin to write a file in place: it is empty until `finish`."""
        client, path = calls.connect(self.location)
        _open[self.location] = calls.call(lambda: client.create(path))

    def finish(self, data: bytes) -> None:
        """Write and close a file that was touched."""
        file = _open.pop(self.location)
        calls.call(lambda: file.write(data))
        calls.call(file.close)


AnyPath = Path | HdfsPath


def path_at(location: str) -> AnyPath:
    """The path of a location on HDFS or on this machine."""
    return HdfsPath(location) if files.is_on_hdfs(location) else Path(location)
