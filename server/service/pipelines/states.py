"""The states of a pipeline's tables for people: built or not, how far behind, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import TableName
from catalog.pipelines.graph import sort_by_inputs
from catalog.pipelines.pipeline import Pipeline, PipelineTable, StoredCheckpoint
from catalog.pipelines.trigger import REMEMBERED_RUNS, NextRun, TableFacts, plan_runs
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.work import JobFilter
from catalog.tables.relation import RelationKind
from firn.protocol.pipelines import TriggerKind
from server.service.pipelines.definitions import DefinedPipeline
from server.service.pipelines.targets import find_checkpoint

MAX_FAILURES = 3
"""Failed runs in a row after which triggers start no other one."""


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
    next_run: NextRun | None
    """None if only a user, a commit or a run of an input starts the next one."""


@dataclass(frozen=True)
class PipelineStates:
    """Reads the states of tables from the database; no files."""

    database: Database

    def describe(self, defined: DefinedPipeline) -> Sequence[TableView]:
        """The tables of a pipeline, each after those that it reads."""
        tables = {table.name: table for table in defined.tables}
        order = sort_by_inputs({name: parse_inputs(table.definition) for name, table in tables.items()})
        with self.database.reading() as uow:
            next_runs = plan_next_runs(uow, defined.pipeline, [tables[name] for name in order])
            return [_describe(uow, defined.pipeline, tables[name], next_runs.get(str(name))) for name in order]


def plan_next_runs(uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable]) -> dict[str, NextRun]:
    """The next runs that triggers start, by the table's name. `tables` come after those that they read."""
    if all(table.definition.trigger.kind is TriggerKind.MANUAL for table in tables):
        return {}
    made = {str(table.name) for table in tables}
    facts = {str(table.name): _read_facts(uow, pipeline, table, made) for table in tables}
    return plan_runs(facts, uow.now(), max_failures=MAX_FAILURES)


def _read_facts(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, made: Collection[str]) -> TableFacts:
    """What decides about the next run of a table. `made` are the tables of its pipeline."""
    checkpoint = find_checkpoint(uow, pipeline, table)
    is_built = checkpoint is not None and checkpoint.fingerprint == table.definition.fingerprint
    pending = {} if checkpoint is None else _find_pending(uow, table, checkpoint, made)
    runs = uow.jobs.list(JobFilter(subject_ids=[table.id]), limit=REMEMBERED_RUNS).items
    ended = [run for run in runs if run.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)]
    failures = list(takewhile(lambda run: run.status is JobStatus.FAILED, ended))
    durations = [
        run.ended_at - run.leased_at
        for run in reversed(ended)
        if run.status is JobStatus.SUCCEEDED and run.ended_at is not None and run.leased_at is not None
    ]
    return TableFacts(
        trigger=table.definition.trigger,
        inputs=[str(name) for name in parse_inputs(table.definition)],
        created_at=pipeline.created_at,
        pending=pending,
        is_built=is_built,
        is_active=any(run.status.is_active for run in runs),
        last_started=next((run.created_at for run in runs), None),
        durations=durations,
        failures=len(failures),
        last_failed=failures[0].ended_at if failures else None,
    )


def _find_pending(
    uow: UnitOfWork, table: PipelineTable, checkpoint: StoredCheckpoint, made: Collection[str]
) -> dict[str, datetime]:
    """The inputs that have changed, each with a time that is not later than the oldest commit behind the changes.

    A commit of a table of the pipeline shows commits that are older than itself. Those, and changes of which the
    database has no time, are not older than the pins.
    """
    changes = list_changes(uow, table, checkpoint)
    return {name: checkpoint.pinned_at if at is None or name in made else at for name, at in changes.items()}


def _describe(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, next_run: NextRun | None) -> TableView:
    last_run = uow.jobs.last_of(table.id, JobKind.PIPELINE)
    checkpoint = find_checkpoint(uow, pipeline, table)
    changes = {} if checkpoint is None else list_changes(uow, table, checkpoint)
    return TableView(
        table=table,
        state=_choose_state(table, checkpoint, last_run, behind=bool(changes)),
        checkpoint=checkpoint,
        behind=None if checkpoint is None else len(changes),
        behind_since=min((at for at in changes.values() if at is not None), default=None),
        last_run=last_run,
        next_run=next_run,
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


def list_changes(uow: UnitOfWork, table: PipelineTable, checkpoint: StoredCheckpoint) -> dict[str, datetime | None]:
    """The inputs that have changed since their pins, with the first commit since then, if the database tells it."""
    changes: dict[str, datetime | None] = {}
    for stored in checkpoint.pins:
        relation = uow.relations.find(table.catalog, TableName.parse(stored.pin.table))
        if relation is None or relation.id != stored.relation_id:
            changes[stored.pin.table] = None
        elif relation.kind is RelationKind.KEYED:
            version, pinned = uow.keyed.get(relation.id).version, int(stored.pin.version or 0)
            if version > pinned:
                later = uow.keyed.versions_between(relation.id, pinned + 1, pinned + 1)
                changes[stored.pin.table] = later[0].committed_at if later else None
        else:
            stats = uow.stats.get(relation.id)
            pinned_snapshot = None if stored.pin.version is None else int(stored.pin.version)
            if stats.snapshot_id != pinned_snapshot:
                changes[stored.pin.table] = uow.events.first_after(relation.id, pinned_snapshot)
    return changes
