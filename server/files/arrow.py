"""Directories of object stores, through PyArrow's file systems.

Importing PyArrow's file systems takes a second of CPU, more than most of the server, and also imports an installed
pandas.  The import happens at the first remote location, so a server with only local files never pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from server.files.deadlines import Deadlines, find_store
from server.files.directories import RemoteEntry
from server.files.read_limits import LISTING_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO


class ArrowDirectories:
    """Implements `server.files.directories.Directories`; each file system is created once."""

    def __init__(self, properties: Mapping[str, str], deadlines: Deadlines | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._properties = dict(properties)
        self.deadlines = Deadlines(READ_SECONDS) if deadlines is None else deadlines

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
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

    def find(self, location: str) -> RemoteEntry:
        return self.deadlines.run(find_store(location), lambda: self._find(location))

    def _find(self, location: str) -> RemoteEntry:
        from pyarrow import fs  # noqa: PLC0415 - see the top

        store, path = self.file_system(location)
        info = store.get_file_info(path.rstrip("/"))
        if info.type is fs.FileType.NotFound:
            raise FileNotFoundError(location)
        return RemoteEntry(path="", is_directory=not info.is_file, size=info.size, mtime_ns=info.mtime_ns)

    def delete(self, location: str) -> None:
        store, path = self.file_system(location)
        store.delete_dir(path)

    def can_move(self, location: str, directory: str) -> bool:
        """Object stores copy a file instead, which a crash can interrupt."""
        del location, directory
        return False

    def move(self, location: str, to: str) -> None:
        raise OSError(None, f"the store of {location} cannot rename it to {to}")

    def file_system(self, location: str) -> tuple[FileSystem, str]:
        """Get the file system of a location, and the path in it."""
        scheme, host, path = self._io.parse_location(location, self._io.properties)
        return self._io.fs_by_scheme(scheme, host), path

    @cached_property
    def _io(self) -> PyArrowFileIO:
        from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - see the top

        return PyArrowFileIO(self._properties)
