"""Remote directories of every kind: those of HDFS and those of object stores."""

from __future__ import annotations

from collections.abc import Mapping

from server.files.arrow import ArrowDirectories
from server.files.deadlines import Deadlines
from server.files.directories import Directories, RemoteEntry, has_times
from server.files.hdfs import HdfsDirectories
from server.files.read_limits import READ_SECONDS


class RemoteDirectories:
    """Implements `server.files.directories.Directories` for each location by its store."""

    def __init__(self, properties: Mapping[str, str], deadlines: Deadlines | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        shared = Deadlines(READ_SECONDS) if deadlines is None else deadlines
        self._objects = ArrowDirectories(properties, shared)
        self._hdfs = HdfsDirectories(shared)

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        return self._store(location).entries(location, recursive=recursive)

    def find(self, location: str) -> RemoteEntry:
        return self._store(location).find(location)

    def delete(self, location: str) -> None:
        self._store(location).delete(location)

    def can_move(self, location: str, directory: str) -> bool:
        return self._store(location).can_move(location, directory)

    def move(self, location: str, to: str) -> None:
        self._store(location).move(location, to)

    def _store(self, location: str) -> Directories:
        return self._hdfs if has_times(location) else self._objects
