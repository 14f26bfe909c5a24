"""Remote directories, through PyArrow's file systems.

Importing PyArrow's file systems takes a second of CPU, more than most of the server, and also imports an installed
pandas.  The import happens at the first remote location, so a server with only local files never pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from server.files.deadlines import Deadlines, find_store
from server.files.read_limits import LISTING_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO


_TIMED = frozenset({"hdfs", "viewfs"})


def has_times(location: str) -> bool:
    """Whether the store has real directories with modification times, unlike an object store."""
    return location.partition("://")[0] in _TIMED


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """One entry of a listing; its path is relative to the listed directory."""

    path: str
    is_directory: bool
    size: int | None
    mtime_ns: int | None


class RemoteDirectories:
    """Lists and deletes remote directories.  Safe to share between threads; each file system is created once."""

    def __init__(self, properties: Mapping[str, str], deadlines: Deadlines | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._properties = dict(properties)
        self.deadlines = Deadlines(READ_SECONDS) if deadlines is None else deadlines

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        """List a directory, or all below it; FileNotFoundError if it does not exist, TimeoutError without an answer."""
        return self.deadlines.run(
            find_store(location), lambda: self._entries(location, recursive=recursive), seconds=LISTING_SECONDS
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
        """Get when a directory last changed; None on storages whose directories have no times.

        FileNotFoundError if it does not exist.
        """
        if not has_times(location):
            return None
        return self.deadlines.run(find_store(location), lambda: self._modified_ns(location))

    def _modified_ns(self, location: str) -> int | None:
        from pyarrow import fs  # noqa: PLC0415 - see the top

        store, path = self.file_system(location)
        info = store.get_file_info(path.rstrip("/"))
        if info.type is fs.FileType.NotFound:
            raise FileNotFoundError(location)
        mtime_ns: int | None = info.mtime_ns
        return mtime_ns

    def delete(self, location: str) -> None:
        """Delete a directory with its content; FileNotFoundError if it does not exist."""
        store, path = self.file_system(location)
        store.delete_dir(path)

    def file_system(self, location: str) -> tuple[FileSystem, str]:
        """Get the file system of a location, and the path in it."""
        scheme, host, path = self._io.parse_location(location, self._io.properties)
        return self._io.fs_by_scheme(scheme, host), path

    @cached_property
    def _io(self) -> PyArrowFileIO:
        from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - see the top

        return PyArrowFileIO(self._properties)
