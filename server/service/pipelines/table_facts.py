"""What the database knows about tables of many pipelines: checkpoints, changes of inputs, and the times of runs.

The number of statements does not depend on the number of tables, so lists and ticks stay fast with many pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from catalog.commits.positions import NO_POSITION
from catalog.keyed.spec import KeyedTable
from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.backfill import Backfill, BackfillId, Reached, settle_backfill
from catalog.pipelines.held_run import HeldTarget
from catalog.pipelines.pipeline import Pipeline, PipelineTable, PipelineTableId, StoredCheckpoint, name_writer
from catalog.pipelines.trigger import REMEMBERED_RUNS
from catalog.ports.pipelines import RunTimes
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind, TableStats
from server.service.pipelines.sets import find_subjects

_TABLES_AT_ONCE = 1_000
_IDS_AT_ONCE = 10_000
"""The number of ids in one statement, which databases limit."""
Defined = tuple[Pipeline, Sequence[PipelineTable]]
_Named = tuple[CatalogName, TableName]
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """What the database knows about one table of a pipeline."""

    checkpoint: StoredCheckpoint | None
    """None if the next run computes all rows."""
    position: str
    """That of the table's writer."""
    changes: Mapping[str, datetime | None]
    """The inputs that have changed since their pins, with the first commit since then, if the database tells it."""
    runs: Sequence[RunTimes]
    """The last runs of the table, or of its set, newest first."""
    held: HeldTarget | None = None
    """What waits for approval."""
    has_chunks: bool = False
    """Whether the next run computes chunks of a backfill. The first run of a query computes all rows anyway."""
    asked_at: datetime | None = None
    """When a user requested or resumed the newest of these backfills; earlier failures of runs do not hold it back."""
    beside: Sequence[BackfillId] = ()
    """The active backfills whose chunks jobs compute beside the runs."""


@dataclass(slots=True)
class TableFacts:
    """Rows of tables and inputs, each read once in a transaction."""

    uow: UnitOfWork
    relations: dict[_Named, Relation] = field(default_factory=dict)
    keyed: dict[RelationId, KeyedTable] = field(default_factory=dict)
    stats: dict[RelationId, TableStats] = field(default_factory=dict)

    def load(self, names: Collection[_Named]) -> None:
        """Read relations that have not been read yet, and what keyed tables consist of."""
        new: dict[CatalogName, list[TableName]] = {}
        for catalog, name in names:
            if (catalog, name) not in self.relations:
                new.setdefault(catalog, []).append(name)
        for catalog, missing in new.items():
            relations = self.uow.pipeline_facts.find_relations(catalog, missing)
            self.relations |= {(catalog, name): relation for name, relation in relations.items()}
        keyed = [entry.id for entry in self.relations.values() if entry.kind is RelationKind.KEYED]
        self.keyed |= get_in_chunks(self.uow.keyed.get_many, [key for key in keyed if key not in self.keyed])

    def load_stats(self) -> None:
        """Read the current snapshots of the plain tables among the relations."""
        self.load_stats_of([entry.id for entry in self.relations.values() if entry.kind is RelationKind.TABLE])

    def load_stats_of(self, ids: Iterable[RelationId]) -> None:
        """Read the counters of tables and stores that have not been read yet."""
        self.stats |= get_in_chunks(self.uow.stats.get_many, [key for key in ids if key not in self.stats])

    def find_store(self, catalog: CatalogName, name: TableName) -> RelationId | None:
        """Where the writer of a target commits; None without a target."""
        relation = self.relations.get((catalog, name))
        if relation is None:
            return None
        keyed = self.keyed.get(relation.id)
        return relation.id if keyed is None else keyed.change_id


def read_states(
    uow: UnitOfWork, defined: Iterable[Defined], facts: TableFacts | None = None
) -> dict[PipelineTableId, StoredState]:
    """The states of all tables of these pipelines. `facts` keeps the rows that were read, for the caller."""
    states: dict[PipelineTableId, StoredState] = {}
    pipelines = list(defined)
    subjects = {key: of for _, tables in pipelines for key, of in find_subjects(tables).items()}
    for chunk in _split(pipelines):
        states |= _read_chunk(facts or TableFacts(uow), chunk, subjects)
    return states


def _split(defined: Iterable[Defined]) -> Iterator[list[tuple[Pipeline, PipelineTable]]]:
    tables = [(pipeline, table) for pipeline, members in defined for table in members]
    return (tables[start : start + _TABLES_AT_ONCE] for start in range(0, len(tables), _TABLES_AT_ONCE))


def _read_chunk(
    facts: TableFacts,
    tables: Sequence[tuple[Pipeline, PipelineTable]],
    subjects: Mapping[PipelineTableId, PipelineTableId],
) -> dict[PipelineTableId, StoredState]:
    uow = facts.uow
    facts.load([(table.catalog, table.name) for _, table in tables])
    positions = _find_positions(facts, tables)
    reached = [(table_id, position) for table_id, position in positions.items() if position != NO_POSITION]
    checkpoints = uow.pipeline_facts.find_checkpoints(reached)
    catalogs = {table.id: table.catalog for _, table in tables}
    pins = {key: checkpoint.pins for key, checkpoint in checkpoints.items()}
    facts.load([(catalogs[key], TableName.parse(stored.pin.table)) for key, of in pins.items() for stored in of])
    facts.load_stats()
    changes = _find_changes(facts, checkpoints, catalogs)
    runs = uow.pipeline_facts.find_run_times({subjects[table.id] for _, table in tables}, limit=REMEMBERED_RUNS)
    parts = uow.held_runs.find([table.id for _, table in tables])
    held = {table_id: part for table_id, part in parts.items() if part.published_at is None}
    backfills = uow.backfills.list_active([table.id for _, table in tables])
    return {
        table.id: StoredState(
            checkpoint=checkpoints.get(table.id),
            position=positions.get(table.id, NO_POSITION),
            changes=changes.get(table.id, {}),
            runs=runs.get(subjects[table.id], ()),
            held=held.get(table.id),
            beside=[entry.id for entry in backfills.get(table.id, ()) if entry.beside is not None],
            has_chunks=_have_chunks(backfills.get(table.id, ()), checkpoints.get(table.id)),
            asked_at=find_last_request(backfills.get(table.id, ())),
        )
        for _, table in tables
    }


def _have_chunks(active: Sequence[Backfill], checkpoint: StoredCheckpoint | None) -> bool:
    if checkpoint is None:
        return False
    reached = Reached(position=checkpoint.id, number=checkpoint.number, at=checkpoint.pinned_at)
    return any(settle_backfill(backfill, reached).pending for backfill in active if backfill.beside is None)


def find_last_request(active: Sequence[Backfill]) -> datetime | None:
    """When a user last wanted the runs to compute chunks."""
    times = [backfill.active_since or backfill.created_at for backfill in active if backfill.beside is None]
    return max(times, default=None)


def _find_positions(facts: TableFacts, tables: Sequence[tuple[Pipeline, PipelineTable]]) -> dict[PipelineTableId, str]:
    """The positions of the tables' writers."""
    keys = {
        table.id: (store, name_writer(pipeline.name, table.name))
        for pipeline, table in tables
        if (store := facts.find_store(table.catalog, table.name)) is not None
    }
    writers = facts.uow.pipeline_facts.find_writers(keys.values())
    return {table_id: writers[key].position for table_id, key in keys.items() if key in writers}


def _find_changes(
    facts: TableFacts,
    checkpoints: Mapping[PipelineTableId, StoredCheckpoint],
    catalogs: Mapping[PipelineTableId, CatalogName],
) -> dict[PipelineTableId, dict[str, datetime | None]]:
    """The inputs of each table that have changed, with the times of their first commits since the pins."""
    versions: dict[tuple[PipelineTableId, str], tuple[RelationId, int]] = {}
    snapshots: dict[tuple[PipelineTableId, str], tuple[RelationId, int | None]] = {}
    changes: dict[PipelineTableId, dict[str, datetime | None]] = {}
    for table_id, checkpoint in checkpoints.items():
        for stored in checkpoint.pins:
            name = stored.pin.table
            relation = facts.relations.get((catalogs[table_id], TableName.parse(name)))
            pinned = None if stored.pin.version is None else int(stored.pin.version)
            if relation is None or relation.id != stored.relation_id:
                changes.setdefault(table_id, {})[name] = None
            elif relation.id in facts.keyed:
                if facts.keyed[relation.id].version > (pinned or 0):
                    versions[table_id, name] = (relation.id, (pinned or 0) + 1)
            elif _get_snapshot(facts, relation.id) != pinned:
                snapshots[table_id, name] = (relation.id, pinned)
    version_times = facts.uow.pipeline_facts.find_version_times(versions.values())
    commit_times = facts.uow.pipeline_facts.find_first_commits(snapshots.values())
    for (table_id, name), version in versions.items():
        changes.setdefault(table_id, {})[name] = version_times.get(version)
    for (table_id, name), snapshot in snapshots.items():
        changes.setdefault(table_id, {})[name] = commit_times.get(snapshot)
    return changes


def _get_snapshot(facts: TableFacts, relation_id: RelationId) -> int | None:
    stats = facts.stats.get(relation_id)
    return None if stats is None else stats.snapshot_id


def get_in_chunks(
    get_many: Callable[[Collection[RelationId]], Mapping[RelationId, _Value]], ids: Sequence[RelationId]
) -> dict[RelationId, _Value]:
    """What `get_many` finds for any number of ids."""
    values: dict[RelationId, _Value] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        values |= get_many(ids[start : start + _IDS_AT_ONCE])
    return values
