"""Decides which files an optimizer may open for its job: by facts in the lease, and by later checks.

An optimizer opens the files that metadata names with its own rights, but users write metadata. The optimizer does not
know the location rule. It opens files in the directories of the job's table, and asks the server about all others
(catalog.locations.location_rule, decision 61).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.credentials.storage_config import StorageConfig
from catalog.credentials.storage_config import Vending as Mode
from catalog.errors import LocationRefused
from catalog.iceberg.reading import ref_snapshot_id
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.maintenance.context import JobContext
from catalog.names import TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.base import Task
from firn.protocol.locations import normalize_location
from firn.protocol.tasks.convert import ConvertTask
from firn.protocol.tasks.sync import SyncTask
from server.service.access.credential_vending import Mechanism
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import (
    build_file_rule,
    find_hive_tables_inside,
    load_allowed_locations,
    load_storage,
)
from server.service.locations.ownership import list_stores
from server.service.pipelines.runs import list_run_relations
from server.service.tables.metadata_files import MetadataFiles

MOST_DIRECTORIES = 50
"""Directories that a lease lists; a Hive table may have thousands, and the optimizer asks about the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedTable:
    """An Iceberg table that a job works on, and its current snapshot when the server built the task."""

    name: TableName
    snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The facts about a job's files that its lease carries."""

    tables: Sequence[LeasedTable]
    own_locations: Sequence[str]
    """Directories whose files the optimizer opens without asking, normalized."""
    hive_table: str | None
    delegation: Sequence[Mechanism]
    """The mechanisms by which the catalog gives access to files."""


@dataclass(frozen=True, slots=True)
class _TableRules:
    """What one table of a job may name. `elsewhere` are those of the asked locations that lie in another table."""

    hive_table: str | None
    elsewhere: Collection[str]
    stores: Sequence[FileRule]

    def find_refused(self, locations: Sequence[str]) -> dict[str, LocationRefused]:
        """The locations that the table may not name, each with its refusal."""
        inside = {place: _refuse_elsewhere(self.hive_table) for place in locations if place in self.elsewhere}
        refused: dict[str, LocationRefused] = {}
        unchecked = [place for place in locations if place not in inside]
        for rule in self.stores:  # a store may also name the files of its sibling
            refused = rule.find_refused(unchecked)
            unchecked = list(refused)
        return inside | refused


@dataclass(frozen=True)
class LeasedFiles:
    """Checks files of leased jobs; reads the database for each answer, and threads may share it."""

    database: Database
    metadata: MetadataFiles

    def load_facts(self, context: JobContext, task: Task) -> FileFacts:
        """The file facts of a lease; raises LocationRefused when a Hive directory of the task lies in another table."""
        with self.database.reading() as uow:
            relation = uow.relations.get(context.job.relation_id)
            hive_table = _hive_table(context.job, relation)
            if _in_tables(uow, relation, hive_table, set(_hive_directories(task))):
                raise _refuse_elsewhere(hive_table)
            storage = load_storage(uow, relation.catalog)
            own = [place for table in list_stores(uow, relation) for place in self._own(uow, table)]
        stores = [
            LeasedTable(name=name, snapshot_id=ref_snapshot_id(metadata, "main"))
            for _, name, metadata in context.stores
        ]
        return FileFacts(
            tables=stores,
            own_locations=list(dict.fromkeys(own))[:MOST_DIRECTORIES],
            hive_table=relation.hive_name,
            delegation=list_mechanisms(storage),
        )

    def load_run_facts(self, job: Job) -> FileFacts:
        """The file facts of the lease of a run of a pipeline, which reads the stores of several tables."""
        with self.database.reading() as uow:
            stores = [store for table in list_run_relations(uow, job) for store in list_stores(uow, table)]
            own = [place for store in stores for place in self._own(uow, store)]
            mechanisms = list_mechanisms(load_storage(uow, job.catalog))
        places = list(dict.fromkeys(own))[:MOST_DIRECTORIES]
        return FileFacts(tables=[], own_locations=places, hive_table=None, delegation=mechanisms)

    def check(self, lease: Lease, locations: Sequence[str]) -> None:
        """Raise LocationRefused for the first location that the job may not open, or LeaseLost for an ended lease."""
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            is_run = job.kind is JobKind.PIPELINE
            relations = list_run_relations(uow, job) if is_run else [uow.relations.get(job.relation_id)]
            tables = [self._load_rules(uow, job, relation, locations) for relation in relations]
        refused: dict[str, LocationRefused] = {}
        unchecked = list(locations)
        for table in tables:  # a run may open what any of its tables names
            refused = table.find_refused(unchecked)
            unchecked = list(refused)
        for error in refused.values():
            raise error

    def _load_rules(self, uow: UnitOfWork, job: Job, relation: Relation, locations: Collection[str]) -> _TableRules:
        # A conversion opens only files of Hive, and none that metadata names.
        stores = [] if job.kind is JobKind.CONVERT else list_stores(uow, relation)
        hive_table = _hive_table(job, relation)
        return _TableRules(
            hive_table=hive_table,
            elsewhere=frozenset(_in_tables(uow, relation, hive_table, locations)),
            stores=[self._rule(uow, store) for store in stores],
        )

    def _rule(self, uow: UnitOfWork, table: Relation) -> FileRule:
        return build_file_rule(uow, self.database, self.metadata.files, table, load_metadata(self.metadata, table))

    def _own(self, uow: UnitOfWork, table: Relation) -> Iterator[str]:
        """The directories that the rule allows to a table, also in the spellings of links above the warehouse."""
        links = self.metadata.files
        allowed = load_allowed_locations(uow, links, table.catalog)
        yield from self._rule(uow, table).hive_locations
        for place in (*list_own_locations(load_metadata(self.metadata, table)), *table.former_locations):
            with suppress(LocationRefused):  # the table is older than the rule: the optimizer asks about its files
                allowed.check_directory(place, links)
                yield place
                yield from sorted(allowed.add_aliases({normalize_location(place)}) - {normalize_location(place)})


def _in_tables(
    uow: UnitOfWork, relation: Relation, hive_table: str | None, locations: Collection[str]
) -> Collection[str]:
    """The directories of a Hive table that lie in another Firn table; Hive users may choose any directory."""
    if hive_table is None:
        return ()
    return find_hive_tables_inside(uow, relation.catalog, hive_table, locations, below=False)


def _refuse_elsewhere(hive_table: str | None) -> LocationRefused:
    return LocationRefused(
        f"files of the Hive table {hive_table} lie in another table's directory, so no job reads them",
        hint="move the Hive table or its partition to a directory of its own",
    )


def _hive_table(job: Job, relation: Relation) -> str | None:
    return str(job.params["hive"]) if job.kind is JobKind.CONVERT else relation.hive_name


def _hive_directories(task: Task) -> Iterator[str]:
    if isinstance(task, ConvertTask):
        yield from (unit.location for unit in task.units)
    elif isinstance(task, SyncTask):
        yield from {file.location.rpartition("/")[0] for unit in task.units for file in unit.files}


def list_mechanisms(storage: StorageConfig) -> list[Mechanism]:
    """The mechanisms that a lease offers; static keys are not limited to a table, so the optimizer uses its own."""
    if storage.vending is Mode.STS:
        return [Mechanism.CREDENTIALS]
    return [Mechanism.SIGNING] if storage.signs else []
