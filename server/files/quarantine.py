"""Files that are looked at and moved aside, where their store can rename: on this machine's disks and in HDFS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from catalog.errors import AlreadyExists, NotFound
from catalog.removal.orphan_files import SeenFile
from firn.protocol.locations import normalize_location
from server.files.arrow import RemoteDirectories
from server.files.locations import local_path
from server.files.storage import Storage, told

_THREADS = 16
_RENAMING = ("hdfs://", "viewfs://")
"""Schemes whose stores rename a file at once. Object stores copy it instead, and are killed half way."""


class QuarantineFiles:
    """Implements `catalog.ports.orphans.QuarantineFiles`."""

    def __init__(self, storage: Storage, properties: dict[str, str] | None = None) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._storage = storage
        self._remote = RemoteDirectories(properties or {}, storage.deadlines)

    def look(self, locations: Sequence[str]) -> list[SeenFile | None]:
        if all(local_path(location) is not None for location in locations):
            return [self._look(location) for location in locations]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as pool:
            return list(pool.map(self._look, locations))

    def is_below(self, location: str, directory: str) -> bool:
        here, there = local_path(location), local_path(directory)
        if here is None or there is None:
            return True
        return Path(here).resolve().is_relative_to(Path(there).resolve())

    def clock(self, directory: str) -> datetime | None:
        probe = f"{directory.rstrip('/')}/{uuid4().hex}.clock"
        self._storage.write_new(probe, b"what time is it?")
        try:
            seen = self._look(probe)
        finally:
            self._storage.delete(probe)
        return None if seen is None else seen.modified_at

    def names(self, directory: str) -> list[str]:
        with told("list", directory):
            path = local_path(directory)
            if path is not None:
                if not Path(path).is_dir():
                    return []
                return [f"{directory.rstrip('/')}/{name}" for name in os.listdir(path)]  # noqa: PTH208 - names only
            from pyarrow import fs  # noqa: PLC0415 - see server.files.arrow

            store, inside = self._remote.file_system(directory)
            found = store.get_file_info(fs.FileSelector(inside.rstrip("/"), allow_not_found=True))
            files = (one.path for one in found if one.type is fs.FileType.File)
            return [f"{directory.rstrip('/')}/{one.rpartition('/')[2]}" for one in files]

    def can_move(self, location: str, directory: str) -> bool:
        here, there = local_path(location), local_path(directory)
        if here is not None and there is not None:
            with told("look at", directory):
                Path(there).mkdir(parents=True, exist_ok=True)
                try:
                    return Path(here).stat().st_dev == Path(there).stat().st_dev
                except FileNotFoundError:  # gone meanwhile: there is nothing to move
                    return True
        one, other = normalize_location(location), normalize_location(directory)
        return one.startswith(_RENAMING) and one.split("/")[:3] == other.split("/")[:3]

    def move(self, location: str, to: str) -> None:
        """On this machine by a second name: unlike a rename it never replaces anything."""
        here, there = local_path(location), local_path(to)
        with told("move", location):
            if here is not None and there is not None:
                Path(there).parent.mkdir(parents=True, exist_ok=True)
                os.link(here, there)
                Path(here).unlink()
                return
            from pyarrow import fs  # noqa: PLC0415 - see server.files.arrow

            store, inside = self._remote.file_system(location)
            _, target = self._remote.file_system(to)
            source, taken = store.get_file_info([inside, target])
            if source.type is fs.FileType.NotFound:
                raise NotFound(f"{location} does not exist")
            if taken.type is not fs.FileType.NotFound:
                raise AlreadyExists(f"{to} exists already")
            store.create_dir(target.rpartition("/")[0], recursive=True)
            store.move(inside, target)

    def is_moved(self, location: str, to: str) -> bool:
        here, there = local_path(location), local_path(to)
        if here is None or there is None:
            return self._look(to) is not None and self._look(location) is None
        with told("look at", to):
            if not Path(there).exists():
                return False
            if not Path(here).exists():
                return True
            if Path(here).samefile(there):
                Path(there).unlink()
            return False

    def _look(self, location: str) -> SeenFile | None:
        try:
            with told("look at", location):
                path = local_path(location)
                if path is not None:
                    return _local(location, path)
                store, inside = self._remote.file_system(location)
                info = store.get_file_info(inside)
                if not info.is_file:
                    return None
                return SeenFile(location, info.size, _moment(info.mtime_ns))
        except NotFound:
            return None


def _local(location: str, path: str) -> SeenFile | None:
    """None for what is no file: a link is somebody's arrangement, and not what engines write."""
    stat = os.lstat(path)
    if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH113, PTH114 - likewise
        return None
    return SeenFile(location, stat.st_size, _moment(stat.st_mtime_ns))


def _moment(ns: int | None) -> datetime | None:
    """Zero and less is what stores say that do not know."""
    return None if ns is None or ns <= 0 else datetime.fromtimestamp(ns / 1e9, UTC)
