"""The services beside a Hive in memory whose files are real, and a process that dies at any step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.hive.checkpoint import Checkpoint, PublishPlan, SyncPlan
from catalog.iceberg.json import Json
from catalog.jobs.blocker import Blocker
from catalog.jobs.job import JobKind
from catalog.jobs.operation import Operation
from catalog.keyed.spec import BASE, KeySpec
from catalog.names import TableName
from catalog.ports.store import Database
from catalog.tables.relation import RelationKind
from server.container import build_services
from server.files.hdfs_check import HdfsFileSystems
from server.files.listing import Listings
from server.files.locations import local_path
from server.files.table_files import TableFiles
from server.launch.query_engine import QueryProcess
from server.service.hive.conversion import Conversions
from server.service.hive.downgrade import Downgrades
from server.service.hive.downgrade_check import DowngradeCheck
from server.service.hive.freshness import Freshness
from server.service.hive.key_evidence import RowSampler
from server.service.hive.operations import Operations
from server.service.hive.publish import Publishes
from server.service.hive.publish_commit import PublishedFiles
from server.service.hive.publish_locations import WritersReach
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.published_permissions import PublishedPermissions
from server.service.hive.repoint import Repointer
from server.service.hive.results import SyncResult
from server.service.hive.sync import Syncs
from server.service.hive.sync_planner import SyncPlanner
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade import Upgrades
from server.service.hive.upgrade_check import Checks
from server.service.jobs.admission import find_blocker
from server.service.services import Services
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.tables import Tables
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.default_settings import settings_in
from tests.server.faults import Killed
from tests.server.metastore.fake import FakeMetastore
from tests.server.service.hive.mortal import (
    Fuse,
    MortalDatabase,
    MortalMetastore,
    MortalPermissions,
    MortalStorage,
    OneMetastore,
)

_ENGINE = QueryProcess(seconds=600.0)
LONG_AGO_NS = 1_700_000_000 * 10**9


@dataclass
class BesideHive:
    """One server process; `restarted` is the next one over the same database and files."""

    services: Services
    operations: Operations
    upgrades: Upgrades
    syncs: Syncs
    publishes: Publishes
    publish_requests: PublishRequests
    freshness: Freshness
    repointer: Repointer
    published: PublishedFiles
    downgrades: Downgrades
    conversions: Conversions
    metastore: FakeMetastore
    fuse: Fuse
    directory: Path
    database: Database
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def warehouse(self) -> Path:
        return self.directory / "data" / "warehouse"

    def restarted(self, *, later: bool = True) -> BesideHive:
        """The next process; `later` than the metastore keeps a lock that nobody keeps alive."""
        if later:
            self.metastore.locks.time_out()
        return _composed(self.database, self.directory, self.metastore, self.numbers)

    def hive_table(self) -> HiveFiles:
        """A table of two partitions with a file each."""
        table = HiveFiles(self, f"t{next(self.numbers)}")
        storage = a_storage(uri(table.path), "id bigint; v string")
        self.metastore.add_table(a_hive_table(name=table.short, storage=storage, partitioned_by="p string"))
        table.add("x", 1, 2)
        table.add("y", 3)
        return table

    @staticmethod
    def table_name(table: HiveFiles) -> TableName:
        return TableName(("db",), table.short)

    def sync(self, table: HiveFiles) -> SyncResult:
        return self.syncs.planner.sync_hive_table(LAKE, table.name, everything=True)

    def start(self, table: HiveFiles, *key: str) -> Operation:
        spec = KeySpec(primary_key=key) if key else None
        return self.operations.start(LAKE, table.name, spec, {})

    def where(self, table: HiveFiles, part: str) -> str | None:
        """Where the metastore has a partition."""
        partitions = self.metastore.partitions("db", table.short, [f"p={part}"])
        return partitions[0].storage.location if partitions else None

    def blocked(self, table: HiveFiles, kind: JobKind) -> Blocker | None:
        """What keeps such jobs from the table over a Hive table."""
        with self.database.reading() as uow:
            relation = uow.relations.of_hive(LAKE, table.name)
            return None if relation is None else find_blocker(uow, relation.id, kind)

    def operation(self, operation: Operation) -> Operation:
        with self.database.reading() as uow:
            return uow.operations.get(operation.id)

    def metadata(self, table: HiveFiles) -> Json | None:
        """The metadata of the Iceberg table over a Hive table; None when there is none."""
        with self.database.reading() as uow:
            relation = uow.relations.find(LAKE, self.target_name(table))
        if relation is None or relation.metadata_location is None:
            return None
        return self.services.metadata.load(relation.metadata_location).parsed

    def target_name(self, table: HiveFiles) -> TableName:
        """What commits of that table go to: itself, or its base store."""
        name = self.table_name(table)
        with self.database.reading() as uow:
            relation = uow.relations.find(LAKE, name)
        is_keyed = relation is not None and relation.kind is RelationKind.KEYED
        return TableName(name.as_namespace, BASE) if is_keyed else name

    def live(self, table: HiveFiles) -> set[str]:
        """The files that the table consists of."""
        metadata = self.metadata(table)
        assert metadata is not None
        return {file.location for file in self.upgrades.files.live_files(metadata)}

    def written(self) -> set[Path]:
        """All files in the warehouse."""
        return {path for path in self.warehouse.rglob("*") if path.is_file()}


@dataclass
class HiveFiles:
    """A Hive table's directories; Hive-side writers write there."""

    beside: BesideHive
    short: str
    elsewhere: Path | None = None
    """Where partitions of it were published, for writers that know them there."""

    @property
    def name(self) -> str:
        return f"db.{self.short}"

    @property
    def path(self) -> Path:
        return self.elsewhere or self.beside.directory / "hive" / self.short

    def add(self, part: str, *ids: int | None, file: str | None = None) -> Path:
        """A file of a partition, which is made if it is not there; written long ago, so it is believed at once."""
        directory = self.path / f"p={part}"
        if not directory.exists():
            directory.mkdir(parents=True)
            storage = a_storage(uri(directory), "id bigint; v string")
            self.beside.metastore.add_partition("db", self.short, a_hive_partition(part, storage=storage))
        return self.add_at(uri(directory), *ids, file=file)

    def add_at(self, location: str, *ids: int | None, file: str | None = None) -> Path:
        """The same in any directory."""
        path = Path(str(local_path(location))) / (file or f"f{next(self.beside.numbers)}.parquet")
        path.unlink(missing_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": [f"{n}" for n in ids]}), path)
        aged(path, LONG_AGO_NS + next(self.beside.numbers))
        return path

    def drop(self, part: str) -> None:
        for path in (self.path / f"p={part}").iterdir():
            path.unlink()
        self.beside.metastore.drop_partition("db", self.short, f"p={part}")

    def files(self) -> set[str]:
        """What Hive lists."""
        return {uri(path) for path in self.path.rglob("*.parquet")}


def uri(path: Path) -> str:
    """A location as Hive writes it: with a scheme, but its characters as they are."""
    return f"file:{path}"


def aged(path: Path, time_ns: int) -> None:
    """As if it had been written then."""
    os.utime(path, ns=(time_ns, time_ns))


def killed_at_every_step(
    beside: BesideHive, create_table: Callable[[BesideHive], HiveFiles], act: Callable[[BesideHive, HiveFiles], object]
) -> Iterator[tuple[BesideHive, HiveFiles]]:
    """What is left when the process died at the first step of what it did, at the second, …, and the next did it again.

    Each time it is another table; it ends with the first that nobody dies at.
    """
    for step in count(1):
        table = create_table(beside)
        beside.fuse.left = step
        try:
            act(beside, table)
        except Killed:
            beside = beside.restarted()
            act(beside, table)
            yield beside, table
        else:
            beside.fuse.left = None
            return


def beside_hive(database: Database, directory: Path, *, of: BesideHive | None = None) -> BesideHive:
    """A Firn beside a Hive of its own, or beside that of another Firn, of which it knows nothing."""
    metastore = FakeMetastore() if of is None else of.metastore
    metastore.add_database("db")
    composed = _composed(database, directory, metastore, count() if of is None else of.numbers)
    composed.services.namespaces.create_catalog(LAKE, composed.warehouse.as_uri(), "thrift://fake:9083", {})
    return composed


def _composed(real: Database, directory: Path, metastore: FakeMetastore, numbers: Iterator[int]) -> BesideHive:
    fuse = Fuse()
    database = cast("Database", MortalDatabase(real, fuse))
    services = build_services(settings_in(directory / "data"), database)
    storage = MortalStorage(fuse)
    metadata = MetadataFiles(storage)
    files = TableFiles(storage, Listings(), footer_threads=2)
    tables = replace(services.tables, metadata=metadata)
    index = HiveIndex(database, OneMetastore(MortalMetastore(metastore, fuse)))
    reach = WritersReach(HdfsFileSystems(storage.deadlines))
    checks = Checks(database, index, files, reach, _sampler(services))
    upgrades = _upgrades(services, database, tables, checks, files)
    repointer = Repointer(database, index, files)
    committer = replace(services.committer, metadata=metadata)
    sync_planner = SyncPlanner(database, metadata, committer, index, files, repointer)
    syncs = Syncs(database, sync_planner)
    permissions = PublishedPermissions(MortalPermissions(storage.deadlines, fuse))
    planner = PublishPlanner(database, metadata, index, files, repointer, sync_planner.columns, permissions, reach)
    requests = PublishRequests(database, planner)
    downgrade_check = DowngradeCheck(database, metadata, index, files)
    published = PublishedFiles(database, metadata, committer, index, files, repointer, permissions)
    return BesideHive(
        services,
        Operations(database, checks, storage),
        upgrades,
        syncs,
        Publishes(database, planner, requests),
        requests,
        Freshness(database, metadata, index, files, permissions, reach),
        repointer,
        published,
        Downgrades(database, metadata, downgrade_check, sync_planner, requests, repointer.owners),
        _conversions(services, database, tables, index, files),
        metastore,
        fuse,
        directory,
        real,
        numbers,
    )


def _sampler(services: Services) -> RowSampler:
    """The sampler with the process that all tests share: it starts once, and waits for a machine that stands still."""
    return replace(services.hive.checks.row_sampler, engine=_ENGINE)


def _upgrades(services: Services, database: Database, tables: Tables, checks: Checks, files: TableFiles) -> Upgrades:
    keyed = replace(services.keyed, metadata=tables.metadata, tables=tables)
    return replace(
        services.hive.upgrades,
        database=database,
        tables=tables,
        keyed=keyed,
        index=checks.index,
        checks=checks,
        files=files,
    )


def _conversions(
    services: Services, database: Database, tables: Tables, index: HiveIndex, files: TableFiles
) -> Conversions:
    namespaces, tables = replace(services.namespaces, database=database), replace(tables, database=database)
    keyed = replace(services.keyed, database=database, tables=tables)
    return Conversions(database, tables.metadata, namespaces, keyed, index, files)


def checkpoint_of(plan: SyncPlan | PublishPlan | None) -> Checkpoint:
    """What the commit of a sync job will make true."""
    assert isinstance(plan, SyncPlan)
    return plan.checkpoint
