"""What is not on this machine, through PyArrow's file systems.

Importing those takes a second of CPU, more than most of the server, and where pandas is installed that is imported too.
It is done when the first such location is met: a server whose files are local never pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from server.files.deadlines import Deadlines, store_of
from server.files.read_limits import LISTING_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO


_TIMED = frozenset({"hdfs", "viewfs"})


def has_times(location: str) -> bool:
    """Whether directories there are more than parts of names, and have times."""
    return location.partition("://")[0] in _TIMED


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """What a listing says of one name, which is relative to the directory that was listed."""

    path: str
    is_directory: bool
    size: int | None
    mtime_ns: int | None


class RemoteDirectories:
    """Safe to share between threads; a file system is made once and kept."""

    def __init__(self, properties: Mapping[str, str], deadlines: Deadlines | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._properties = dict(properties)
        self.deadlines = Deadlines(READ_SECONDS) if deadlines is None else deadlines

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        """What is in a directory, or below it; FileNotFoundError if there is none, TimeoutError without an answer."""
        return self.deadlines.run(
            store_of(location), lambda: self._entries(location, recursive=recursive), seconds=LISTING_SECONDS
        )

    def _entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        from pyarrow import fs  # noqa: PLC0415 - see the top

        store, path = self.file_system(location)
        base = path.rstrip("/")
        selector = fs.FileSelector(base, recursive=recursive)
        return [
            RemoteEntry(
                path=info.path[len(base) :].lstrip("/"),
                is_directory=info.type is fs.FileType.Directory,
                size=info.size,
                mtime_ns=info.mtime_ns,
            )
            for info in store.get_file_info(selector)
        ]

    def modified_ns(self, location: str) -> int | None:
        """When a directory changed last; None on storages whose directories have no times.

        FileNotFoundError if there is none.
        """
        if not has_times(location):
            return None
        return self.deadlines.run(store_of(location), lambda: self._modified_ns(location))

    def _modified_ns(self, location: str) -> int | None:
        from pyarrow import fs  # noqa: PLC0415 - see the top

        store, path = self.file_system(location)
        info = store.get_file_info(path.rstrip("/"))
        if info.type is fs.FileType.NotFound:
            raise FileNotFoundError(location)
        known: int | None = info.mtime_ns
        return known

    def delete(self, location: str) -> None:
        """Remove a directory and all in it; FileNotFoundError if there is none."""
        store, path = self.file_system(location)
        store.delete_dir(path)

    def file_system(self, location: str) -> tuple[FileSystem, str]:
        """Where a location lies, and its path there."""
        scheme, host, path = self._io.parse_location(location, self._io.properties)
        return self._io.fs_by_scheme(scheme, host), path

    @cached_property
    def _io(self) -> PyArrowFileIO:
        from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - see the top

        return PyArrowFileIO(self._properties)
