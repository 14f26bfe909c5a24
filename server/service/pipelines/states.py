"""The states of pipelines' tables for people: built or not, how far behind, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from catalog.jobs.job import Job, JobStatus
from catalog.pipelines.graph import sort_by_inputs
from catalog.pipelines.held_run import HeldTarget
from catalog.pipelines.pipeline import Pipeline, PipelineTable, PipelineTableId, StoredCheckpoint
from catalog.pipelines.trigger import NextRun, TableFacts, plan_runs
from catalog.pipelines.versions import parse_inputs
from catalog.ports.pipelines import RunTimes
from catalog.ports.store import Database
from firn.protocol.pipelines import TriggerKind
from server.service.pipelines.definitions import DefinedPipeline
from server.service.pipelines.sets import find_subjects, share_next_runs
from server.service.pipelines.table_facts import StoredState, read_states

TABLE_STATES = ("new", "current", "behind", "running", "rebuild", "failed", "held")
MAX_FAILURES = 3
"""Failed runs in a row after which triggers start no other one."""
States = Mapping[PipelineTableId, StoredState]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table of a pipeline with its state."""

    table: PipelineTable
    state: str
    """`new`, `current`, `behind`, `running`, `rebuild`, `failed` or `held`."""
    checkpoint: StoredCheckpoint | None
    changes: Mapping[str, datetime | None]
    """The inputs that have changed since the checkpoint, with the first commit since then, as far as it is known."""
    behind: int | None
    """The number of inputs that have changed since the checkpoint; None if the table is not built."""
    behind_since: datetime | None
    """The oldest commit that the table does not show, as far as the database tells."""
    last_run: Job | None
    last_ended: RunTimes | None
    """The newest run that has succeeded or failed."""
    next_run: NextRun | None
    """None if only a user, a commit or a run of an input starts the next one."""
    held: HeldTarget | None = None
    """The run whose rows wait for approval."""


@dataclass(frozen=True)
class PipelineStates:
    """Reads the states of tables from the database; no files."""

    database: Database

    def describe(self, defined: Sequence[DefinedPipeline]) -> list[Sequence[TableView]]:
        """The tables of each pipeline, each table after those that it reads."""
        ordered = [(entry.pipeline, sort_tables(entry.tables)) for entry in defined]
        with self.database.reading() as uow:
            states, now = read_states(uow, ordered), uow.now()
            subjects = {key: of for _, tables in ordered for key, of in find_subjects(tables).items()}
            last_runs = uow.pipeline_facts.find_last_runs(set(subjects.values()))
        views: list[Sequence[TableView]] = []
        for pipeline, tables in ordered:
            next_runs = plan_next_runs(pipeline, tables, states, now)
            views.append(
                [
                    _describe(
                        table, states[table.id], last_runs.get(subjects[table.id]), next_runs.get(str(table.name))
                    )
                    for table in tables
                ]
            )
        return views


def sort_tables(tables: Sequence[PipelineTable]) -> list[PipelineTable]:
    """The tables of a pipeline, each after those that it reads."""
    by_name = {table.name: table for table in tables}
    order = sort_by_inputs({name: parse_inputs(table.definition) for name, table in by_name.items()})
    return [by_name[name] for name in order]


def plan_next_runs(
    pipeline: Pipeline, tables: Sequence[PipelineTable], states: States, now: datetime
) -> dict[str, NextRun]:
    """The next runs that triggers start, by the table's name. `tables` come after those that they read."""
    if not has_triggers(tables, states):
        return {}
    own_tables = {str(table.name) for table in tables}
    facts = {str(table.name): _build_facts(pipeline, table, states[table.id], own_tables) for table in tables}
    return share_next_runs(tables, plan_runs(facts, now, max_failures=MAX_FAILURES))


def has_triggers(tables: Sequence[PipelineTable], states: States) -> bool:
    """Whether a table of these has a trigger, a backfill, or bounded runs: Firn starts those, too."""
    kinds = {table.definition.trigger.kind for table in tables}
    is_bounded = any(table.definition.max_commits is not None for table in tables)
    has_backfills = any(states[table.id].has_chunks or states[table.id].beside for table in tables)
    return bool(kinds - {TriggerKind.MANUAL}) or is_bounded or has_backfills


def _build_facts(
    pipeline: Pipeline, table: PipelineTable, state: StoredState, own_tables: Collection[str]
) -> TableFacts:
    """What decides about the next run of a table. `own_tables` are the tables of its pipeline."""
    checkpoint = state.checkpoint
    is_built = checkpoint is not None and checkpoint.fingerprint == table.definition.fingerprint
    ended, failures = _list_ended(state.runs), list_failures(state)
    succeeded = [run for run in reversed(ended) if run.status is JobStatus.SUCCEEDED]
    durations = [run.duration for run in succeeded if run.duration is not None]
    return TableFacts(
        trigger=table.definition.trigger,
        inputs=[str(name) for name in parse_inputs(table.definition)],
        created_at=pipeline.created_at,
        pending={} if checkpoint is None else _find_pending(state.changes, checkpoint, own_tables),
        is_active=state.held is not None or any(run.status.is_active for run in state.runs),
        is_built=is_built,
        has_chunks=is_built and state.has_chunks,
        is_bounded=is_built and _has_left_commits(table, state),
        last_started=next((run.created_at for run in state.runs), None),
        durations=durations,
        failures=len(failures),
        last_failed=failures[0].ended_at if failures else None,
    )


def list_failures(state: StoredState) -> list[RunTimes]:
    """The failed runs since the last success, newest first, which hold back the runs that triggers start."""
    ended = _list_ended(state.runs)
    return list(takewhile(lambda run: run.status is JobStatus.FAILED and _counts(run, state.asked_at), ended))


def _counts(run: RunTimes, asked_at: datetime | None) -> bool:
    """Whether a failure says something about what users want now: not if they asked for chunks after it."""
    return asked_at is None or run.created_at >= asked_at


def _has_left_commits(table: PipelineTable, state: StoredState) -> bool:
    """Whether the pins of the last run leave out commits that were there already, because the run was bounded."""
    if table.definition.max_commits is None or state.checkpoint is None:
        return False
    pinned_at = state.checkpoint.pinned_at
    return any(at is not None and at < pinned_at for at in state.changes.values())


def _list_ended(runs: Sequence[RunTimes]) -> list[RunTimes]:
    """The runs that have succeeded or failed; those that a user has canceled say nothing about a table."""
    return [run for run in runs if run.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)]


def _find_pending(
    changes: Mapping[str, datetime | None], checkpoint: StoredCheckpoint, own_tables: Collection[str]
) -> dict[str, datetime]:
    """The inputs that have changed, each with a time that is not later than the oldest commit behind the changes.

    A commit of a table of the pipeline shows commits that are older than itself. Those, and changes of which the
    database has no time, are not older than the pins.
    """
    return {name: checkpoint.pinned_at if at is None or name in own_tables else at for name, at in changes.items()}


def _describe(table: PipelineTable, state: StoredState, last_run: Job | None, next_run: NextRun | None) -> TableView:
    return TableView(
        table=table,
        state="held" if state.held is not None else _choose_state(table, state, last_run),
        checkpoint=state.checkpoint,
        changes=state.changes,
        behind=None if state.checkpoint is None else len(state.changes),
        behind_since=min((at for at in state.changes.values() if at is not None), default=None),
        last_run=last_run,
        last_ended=next(iter(_list_ended(state.runs)), None),
        next_run=next_run,
        held=state.held,
    )


def _choose_state(table: PipelineTable, state: StoredState, last_run: Job | None) -> str:
    checkpoint = state.checkpoint
    if last_run is not None and last_run.status.is_active:
        return "running"
    if last_run is not None and last_run.status is JobStatus.FAILED:
        return "failed"
    if checkpoint is None:
        return "new"
    if checkpoint.fingerprint != table.definition.fingerprint:
        return "rebuild"
    return "behind" if state.changes else "current"
