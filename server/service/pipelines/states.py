"""The states of a pipeline's tables for people: built or not, how far behind, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import TableName
from catalog.pipelines.graph import sort_by_inputs
from catalog.pipelines.pipeline import Pipeline, PipelineTable, StoredCheckpoint
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from server.service.pipelines.definitions import DefinedPipeline
from server.service.pipelines.targets import find_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table of a pipeline with its state."""

    table: PipelineTable
    state: str
    """`new`, `current`, `behind`, `running`, `rebuild` or `failed`."""
    checkpoint: StoredCheckpoint | None
    behind: int | None
    """The number of inputs that have changed since the checkpoint; None if the table is not built."""
    behind_since: datetime | None
    """The oldest commit that the table does not show, as far as the database tells."""
    last_run: Job | None


@dataclass(frozen=True)
class PipelineStates:
    """Reads the states of tables from the database; no files."""

    database: Database

    def describe(self, defined: DefinedPipeline) -> Sequence[TableView]:
        """The tables of a pipeline, each after those that it reads."""
        tables = {table.name: table for table in defined.tables}
        order = sort_by_inputs({name: parse_inputs(table.definition) for name, table in tables.items()})
        with self.database.reading() as uow:
            return [_describe(uow, defined.pipeline, tables[name]) for name in order]


def _describe(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> TableView:
    last_run = uow.jobs.last_of(table.id, JobKind.PIPELINE)
    checkpoint = find_checkpoint(uow, pipeline, table)
    changes = [] if checkpoint is None else _list_changes(uow, table, checkpoint)
    return TableView(
        table=table,
        state=_choose_state(table, checkpoint, last_run, behind=bool(changes)),
        checkpoint=checkpoint,
        behind=None if checkpoint is None else len(changes),
        behind_since=min((at for at in changes if at is not None), default=None),
        last_run=last_run,
    )


def _choose_state(
    table: PipelineTable, checkpoint: StoredCheckpoint | None, last_run: Job | None, *, behind: bool
) -> str:
    if last_run is not None and last_run.status.is_active:
        return "running"
    if last_run is not None and last_run.status is JobStatus.FAILED:
        return "failed"
    if checkpoint is None:
        return "new"
    if checkpoint.fingerprint != table.definition.fingerprint:
        return "rebuild"
    return "behind" if behind else "current"


def _list_changes(uow: UnitOfWork, table: PipelineTable, checkpoint: StoredCheckpoint) -> list[datetime | None]:
    """For each input that has changed since its pin: the first commit since then, if the database tells it."""
    changes: list[datetime | None] = []
    for stored in checkpoint.pins:
        relation = uow.relations.find(table.catalog, TableName.parse(stored.pin.table))
        if relation is None or relation.id != stored.relation_id:
            changes.append(None)
        elif relation.kind is RelationKind.KEYED:
            version, pinned = uow.keyed.get(relation.id).version, int(stored.pin.version or 0)
            if version > pinned:
                later = uow.keyed.versions_between(relation.id, pinned + 1, pinned + 1)
                changes.append(later[0].committed_at if later else None)
        else:
            stats = uow.stats.get(relation.id)
            pinned_snapshot = None if stored.pin.version is None else int(stored.pin.version)
            if stats.snapshot_id != pinned_snapshot:
                changes.append(stats.last_commit_at)
    return changes
