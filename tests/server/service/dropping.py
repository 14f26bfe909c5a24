"""Tables over real files, for tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import cast
from urllib.parse import urlparse
from uuid import UUID, uuid4

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule
from catalog.names import TableName
from catalog.policy.policy import RETENTION
from catalog.ports.dropped import ReachableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.undrop import Dropped
from server.files.reachable import Reachable
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.drop.purge import Purges
from server.service.tables.metadata_files import MetadataFiles
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import PLAIN, Lake
from tests.server.wrappers import DatabaseWrapper

_ids = count(50_000)


def path_of(location: str) -> Path:
    """A location on this machine as a path."""
    return Path(urlparse(location).path)


def append_files(lake: Lake, name: TableName = PLAIN, *, files: int = 2, at: str | None = None) -> list[Path]:
    """Append data files that exist, by default inside the table's location; returns their paths."""
    metadata = lake.metadata(name)
    place = at or f"{metadata['location']}/data"
    locations = [f"{place}/{uuid4().hex}.parquet" for _ in range(files)]
    for location in locations:
        path_of(location).parent.mkdir(parents=True, exist_ok=True)
        path_of(location).write_bytes(b"rows")
    entries = [DataFileEntry(stats=FileStats(location=location, size=4, record_count=1)) for location in locations]
    added = write_snapshot(
        Storage(), metadata, entries, (), snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    lake.commit(TableCommit(name=name, requirements=added.requirements(), updates=added.updates()))
    return [path_of(location) for location in locations]


def unlisted(lake: Lake, name: TableName = PLAIN) -> Json:
    """A table's metadata as the oldest v1 writers left it: snapshots name their manifests, there is no list."""
    metadata = lake.metadata(name)
    reachable = Reachable(Storage())
    snapshots = []
    for snapshot in metadata["snapshots"]:
        kept = {key: snapshot[key] for key in ("snapshot-id", "timestamp-ms", "summary")}
        snapshots.append(kept | {"manifests": reachable.manifests(snapshot["manifest-list"])})
        path_of(snapshot["manifest-list"]).unlink()
    old: Json = {"format-version": 1, "schema": metadata["schemas"][0], "partition-spec": [], "metadata-log": []}
    return {**metadata, **old, "snapshots": snapshots}


def keep(lake: Lake, retention: str) -> None:
    """How long the catalog keeps what is dropped from here on."""
    lake.services.namespaces.change_catalog_properties(LAKE, updates={RETENTION: retention}, removals=[])


def listed(lake: Lake, name: TableName | None = None) -> list[Dropped]:
    """The list of what was dropped, newest first."""
    wanted = None if name is None else str(name)
    return list(lake.services.undrops.list(LAKE, name=wanted, limit=100).items)


def age(lake: Lake, entry_id: UUID) -> None:
    """Let an entry's time be over."""
    with lake.services.database.writing() as uow:
        (entry,) = [dropped for dropped in uow.dropped.list(LAKE, limit=500).items if dropped.id == entry_id]
        relations = uow.dropped.take_back(entry)
        assert relations is not None
        overdue = {name: getattr(entry, name) for name in Dropped.__slots__} | {
            "keep_until": uow.now() - timedelta(seconds=1)
        }
        uow.dropped.add(Dropped(**overdue), relations)


def files_below(location: str) -> set[Path]:
    """Every file under a location."""
    return {path for path in path_of(location).rglob("*") if path.is_file()}


def purge_all(lake: Lake) -> None:
    """What the server does by itself, until nothing is left to be done."""
    for _ in range(50):
        lake.services.purges.activate()
        with lake.services.database.reading() as uow:
            if not uow.dropped.purging() and not uow.dropped.overdue(uow.now(), limit=1):
                return
    raise AssertionError("a purge does not end")


@dataclass
class Fuse:
    """Ends the process at the step that it was set to."""

    left: int

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


@dataclass
class DyingFiles:
    """Files of a process that may end before and after each single operation."""

    real: ReachableFiles
    fuse: Fuse

    def confined(self, rule: FileRule) -> DyingFiles:
        return DyingFiles(self.real.confined(rule), self.fuse)

    def manifests(self, manifest_list: str) -> list[str]:
        return self._around(lambda: self.real.manifests(manifest_list))

    def files(self, manifest: str) -> list[str]:
        return self._around(lambda: self.real.files(manifest))

    def missing(self, locations: Sequence[str]) -> list[str]:
        return self.real.missing(locations)

    def delete(self, locations: Sequence[str]) -> None:
        for location in locations:
            self.fuse.burn()
            self.real.delete([location])
        self.fuse.burn()

    def delete_empty_directories(self, location: str) -> None:
        self.fuse.burn()
        self.real.delete_empty_directories(location)
        self.fuse.burn()

    def _around(self, act: Callable[[], list[str]]) -> list[str]:
        self.fuse.burn()
        return act()


@dataclass
class DyingDatabase(DatabaseWrapper):
    """A database of a process that may end before and after each commit."""

    fuse: Fuse

    @contextmanager
    def writing(self) -> Iterator[UnitOfWork]:
        with self.real.writing() as uow:
            yield uow
            self.fuse.burn()
        self.fuse.burn()


def dying_purges(lake: Lake, fuse: Fuse) -> Purges:
    """A server that has just started, and will end when the fuse has burnt down."""
    storage = Storage()
    database = cast("Database", DyingDatabase(lake.database.real, fuse))
    return Purges(database, MetadataFiles(storage), DyingFiles(Reachable(storage), fuse))
