"""Quarantine of files in stores that can rename: local disks and HDFS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from catalog.errors import AlreadyExists, NotFound
from catalog.removal.orphan_removal import SeenFile
from server.files.directories import Directories
from server.files.locations import local_path
from server.files.remote_directories import RemoteDirectories
from server.files.storage import Storage, translate_errors

_THREADS = 16


class QuarantineFiles:
    """Implements `catalog.ports.orphans.QuarantineFiles`."""

    def __init__(self, storage: Storage, properties: dict[str, str] | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._storage = storage
        self._remote: Directories = RemoteDirectories(properties or {}, storage.deadlines)

    def inspect(self, locations: Sequence[str]) -> list[SeenFile | None]:
        if all(local_path(location) is not None for location in locations):
            return [self._inspect(location) for location in locations]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as pool:
            return list(pool.map(self._inspect, locations))

    def is_below(self, location: str, directory: str) -> bool:
        here, there = local_path(location), local_path(directory)
        if here is None or there is None:
            return True
        return Path(here).resolve().is_relative_to(Path(there).resolve())

    def clock(self, directory: str) -> datetime | None:
        probe = f"{directory.rstrip('/')}/{uuid4().hex}.clock"
        self._storage.write_new(probe, b"what time is it?")
        try:
            file = self._inspect(probe)
        finally:
            self._storage.delete(probe)
        return None if file is None else file.modified_at

    def names(self, directory: str) -> list[str]:
        with translate_errors("list", directory):
            path = local_path(directory)
            if path is not None:
                if not Path(path).is_dir():
                    return []
                return [f"{directory.rstrip('/')}/{name}" for name in os.listdir(path)]  # noqa: PTH208 - names only
            try:
                entries = self._remote.entries(directory, recursive=False)
            except FileNotFoundError:
                return []
            return [f"{directory.rstrip('/')}/{entry.path}" for entry in entries if not entry.is_directory]

    def can_move(self, location: str, directory: str) -> bool:
        here, there = local_path(location), local_path(directory)
        if here is not None and there is not None:
            with translate_errors("look at", directory):
                Path(there).mkdir(parents=True, exist_ok=True)
                try:
                    return Path(here).stat().st_dev == Path(there).stat().st_dev
                except FileNotFoundError:  # deleted in the meantime: nothing to move
                    return True
        return self._remote.can_move(location, directory)

    def move(self, location: str, to: str) -> None:
        """Move a file; a local one by a hard link, which unlike a rename never replaces a file."""
        here, there = local_path(location), local_path(to)
        with translate_errors("move", location):
            try:
                if here is None or there is None:
                    self._remote.move(location, to)
                else:
                    Path(there).parent.mkdir(parents=True, exist_ok=True)
                    os.link(here, there)
                    Path(here).unlink()
            except FileExistsError as error:
                raise AlreadyExists(f"{to} exists already") from error

    def is_moved(self, location: str, to: str) -> bool:
        here, there = local_path(location), local_path(to)
        if here is None or there is None:
            return self._inspect(to) is not None and self._inspect(location) is None
        with translate_errors("look at", to):
            if not Path(there).exists():
                return False
            if not Path(here).exists():
                return True
            if Path(here).samefile(there):
                Path(there).unlink()
            return False

    def _inspect(self, location: str) -> SeenFile | None:
        try:
            with translate_errors("look at", location):
                path = local_path(location)
                if path is not None:
                    return _describe_local(location, path)
                entry = self._remote.find(location)
                return None if entry.is_directory else SeenFile(location, entry.size or 0, _parse_time(entry.mtime_ns))
        except NotFound:
            return None


def _describe_local(location: str, path: str) -> SeenFile | None:
    """Describe a regular file; None for others, also for a link, since engines write none."""
    stat = os.lstat(path)
    if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH113, PTH114 - likewise
        return None
    return SeenFile(location, stat.st_size, _parse_time(stat.st_mtime_ns))


def _parse_time(ns: int | None) -> datetime | None:
    """Convert a time; None for zero or less, which stores report for an unknown time."""
    return None if ns is None or ns <= 0 else datetime.fromtimestamp(ns / 1e9, UTC)
