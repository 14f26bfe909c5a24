"""Pins of runs: one transaction registers the writers, reads the checkpoints, and pins all inputs.

docs/protocols.md, rule 8.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.commits.writers import Progress, Writer, check_progress
from catalog.errors import Conflict, Invalid, NoSuchTable
from catalog.jobs.job import Job
from catalog.jobs.leases import Lease, check_lease
from catalog.names import TableName
from catalog.pipelines.checkpoint import explain_full, is_fallback
from catalog.pipelines.pipeline import (
    CheckpointId,
    Pipeline,
    PipelineTable,
    StoredCheckpoint,
    StoredPin,
    name_writer,
)
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.backfills import RunChunks
from firn.protocol.pipeline_pins import MoveCheckpoint
from server.service.pipelines.bounded_inputs import RegisteredTable, bound_inputs, read_bound
from server.service.pipelines.chunk_claims import RunBackfills, choose_run_chunks
from server.service.pipelines.input_states import load_input_state
from server.service.pipelines.pin_inputs import InputNow, get_input, lock_inputs, read_input, with_versions
from server.service.pipelines.rights import check_owner
from server.service.pipelines.runs import check_live, read_run_tables
from server.service.pipelines.targets import (
    Target,
    check_not_held,
    check_target,
    find_quarantine,
    find_target,
    load_target_policy,
)
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.writers import register_copy

KEPT_CHECKPOINTS = 1_000
"""The number of pins that the server keeps of a table. A rollback of the table may bring each of them back."""
KEEP_INPUTS = "firn.pipeline.keep-inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTarget:
    """What a run computes for one of its targets; see `firn.protocol.pipelines.TargetPins`."""

    table: TableName
    writer: Writer
    since: StoredCheckpoint | None
    full_reason: str | None
    is_fallback: bool
    until: StoredCheckpoint
    chunks: RunChunks | None
    has_backfills: bool
    replay: StoredCheckpoint | None = None
    commits_left: int = 0
    """The commits of the inputs that the next run takes (rule 8.14)."""
    quarantine_writer: Writer | None = None
    writes_unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    """A target after the transaction that has pinned its inputs."""

    table: PipelineTable
    writer: Writer
    since: StoredCheckpoint | None
    until: StoredCheckpoint
    inputs: Sequence[InputNow]
    backfills: RunBackfills
    replayed: Sequence[InputNow] = ()
    """The inputs with their versions since the checkpoint of a replay."""
    quarantine_writer: Writer | None = None
    """The writer at the quarantine, if validators drop rows (rule 8.22)."""


@dataclass(frozen=True)
class PipelinePins:
    """The part of runs that the database decides."""

    database: Database
    metadata: MetadataFiles
    checks_rights: bool

    def pin(self, lease: Lease, fingerprints: Mapping[TableName, str]) -> list[PinnedTarget]:
        """Register a copy of the run's writer on each target, and pin all inputs of all targets, in one transaction.

        Raises LeaseLost; Conflict if the run has other targets by now, or if the query of one is another one, if a
        target has rows of others, or if the owner lacks a right; NoSuchTable for a missing target or input.
        """
        with self.database.writing() as uow:
            job = check_live(check_lease(uow.jobs.lock(lease.job_id), lease))
            pipeline, tables = read_run_tables(uow, job)
            tables = _lock_tables(uow, tables)
            check_not_held(uow, pipeline, tables)
            uow.held_runs.remove([table.id for table in tables])  # those of published runs
            _check_queries(tables, fingerprints)
            targets = {table.id: self._check_target(uow, pipeline, table) for table in tables}
            locked = lock_inputs(uow, tables)
            runs = [self._register(uow, pipeline, table, targets[table.id]) for table in tables]
            to, is_full = read_bound(job), bool(job.params.get("full"))
            inputs, left = bound_inputs(uow, self.metadata, runs, locked, is_full=is_full, to=to)
            pinned = [self._pin(uow, job, run, targets[run.table.id], inputs) for run in runs]
            registered = [replace(run, quarantine_writer=_register_quarantine(uow, pipeline, run)) for run in pinned]
            uow.jobs.put(replace(job, params=job.params | {"version": pipeline.version}))
        if left and to is None:  # the next run starts at once, whatever starts the others
            with self.database.writing() as uow:
                uow.pipelines.plan_at(pipeline.id, uow.now())
        asked_full = bool(job.params.get("full"))
        return [replace(self._decide(entry, asked_full=asked_full), commits_left=left) for entry in registered]

    def _register(self, uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, target: Target) -> RegisteredTable:
        """Register a copy of the writer of one target."""
        writer = register_copy(uow, target.store_id, table.name, name_writer(pipeline.name, table.name), self.metadata)
        return RegisteredTable(table, writer, uow.checkpoints.find(table.id, writer.position))

    def _pin(
        self,
        uow: UnitOfWork,
        job: Job,
        registered: RegisteredTable,
        target: Target,
        locked: Mapping[TableName, InputNow],
    ) -> _Pinned:
        """Store the new pins of one target."""
        table, writer, since = registered.table, registered.writer, registered.since
        inputs = [with_versions(uow, locked[name], since) for name in parse_inputs(table.definition)]
        until = _make_checkpoint(uow, job, table, target, writer, inputs)
        uow.checkpoints.add(until)
        uow.checkpoints.forget(table.id, keep=KEPT_CHECKPOINTS, current=writer.position)
        is_full = since is None or since.fingerprint != until.fingerprint or bool(job.params.get("full"))
        backfills = choose_run_chunks(uow, job, table, writer.position, until, is_full=is_full)
        run = _Pinned(table=table, writer=writer, since=since, until=until, inputs=inputs, backfills=backfills)
        if backfills.replay is None:
            return run
        return replace(run, replayed=[with_versions(uow, entry, backfills.replay) for entry in inputs])

    def _decide(self, run: _Pinned, *, asked_full: bool) -> PinnedTarget:
        """Whether a target is computed from its checkpoint, by the metadata files of its inputs."""
        states = {entry.name: load_input_state(self.metadata, entry, run.since) for entry in run.inputs}
        table, position = run.table, run.writer.position
        reason = explain_full(table, position, run.since, states, asked_full=asked_full)
        replay = run.backfills.replay
        if reason is None and replay is not None and (problem := self._explain_unusable(table, replay, run.replayed)):
            # The run claims the replay, so it has to compute what the replay asks for.
            reason = f"the checkpoint of the replay cannot be used: {problem}"
        return PinnedTarget(
            table=table.name,
            writer=run.writer,
            since=run.since if reason is None else None,
            full_reason=reason,
            is_fallback=reason is not None and is_fallback(table, position, run.since, asked_full=asked_full),
            until=run.until,
            chunks=run.backfills.chunks if reason is None else None,
            has_backfills=run.backfills.is_open,
            replay=replay if reason is None else None,
            quarantine_writer=run.quarantine_writer,
            writes_unchanged=run.backfills.is_beside,
        )

    def explain_unusable(
        self, uow: UnitOfWork, table: PipelineTable, checkpoints: Iterable[StoredCheckpoint]
    ) -> Iterator[tuple[StoredCheckpoint, str | None]]:
        """Each checkpoint with why the changes since it cannot be told any more (rule 8.5); None if they can.

        The inputs are read once; raises NoSuchTable for a missing one.
        """
        relations = {name: get_input(uow, table, name) for name in parse_inputs(table.definition)}
        keyed = {name: uow.keyed.get(of.id) for name, of in relations.items() if of.kind is RelationKind.KEYED}
        inputs = [read_input(uow, name, source, keyed.get(name)) for name, source in relations.items()]
        for checkpoint in checkpoints:
            dated = [with_versions(uow, entry, checkpoint) for entry in inputs]
            yield checkpoint, self._explain_unusable(table, checkpoint, dated)

    def _explain_unusable(
        self, table: PipelineTable, checkpoint: StoredCheckpoint, inputs: Sequence[InputNow]
    ) -> str | None:
        states = {entry.name: load_input_state(self.metadata, entry, checkpoint) for entry in inputs}
        return explain_full(table, checkpoint.id, checkpoint, states, asked_full=False)

    def move(self, lease: Lease, step: MoveCheckpoint) -> Writer:
        """Move the checkpoint of a table whose rows its inputs' changes do not change (docs/protocols.md, rule 8.3).

        Raises LeaseLost, WriterFenced, PositionMoved, and Invalid for a checkpoint that is not of this table. A
        repeated request succeeds.
        """
        with self.database.writing() as uow:
            job = check_live(check_lease(uow.jobs.lock(lease.job_id), lease))
            pipeline, tables = read_run_tables(uow, job)
            table = find_table(tables, TableName.parse(step.table))
            if len(tables) > 1:
                raise Conflict(f"{table.name} moves together with other tables by now", hint="begin again")
            return move_position(uow, pipeline, table, step)

    def _check_target(self, uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> Target:
        target = find_target(uow, pipeline.name, table.catalog, table.name)
        if target is None:
            raise NoSuchTable(f"Table does not exist: {table.name}", hint="create it before the run pins its inputs")
        check_target(target, table.definition)
        if self.checks_rights:
            check_owner(uow, pipeline, table, is_built=True)
        return target


def _lock_tables(uow: UnitOfWork, tables: Sequence[PipelineTable]) -> list[PipelineTable]:
    """The tables as they are now, locked by id, in the given order."""
    locked = {table.id: uow.pipelines.lock_table(table.id) for table in sorted(tables, key=lambda table: table.id)}
    return [locked[table.id] for table in tables]


def _register_quarantine(uow: UnitOfWork, pipeline: Pipeline, run: _Pinned) -> Writer | None:
    """Register a copy of the writer at the table's quarantine. NoSuchTable without it: the run creates it first."""
    name = run.table.definition.quarantine
    if name is None:
        return None
    quarantine = find_quarantine(uow, pipeline.name, run.table)
    if quarantine is None:
        raise NoSuchTable(f"Table does not exist: {name}", hint="create it before the run pins its inputs")
    table = TableName.parse(name)
    return register_copy(uow, quarantine.store_id, table, name_writer(pipeline.name, table))


def _check_queries(tables: Sequence[PipelineTable], fingerprints: Mapping[TableName, str]) -> None:
    """Raise Conflict unless the optimizer runs these tables, and their queries of now."""
    if {table.name for table in tables} != set(fingerprints):
        named = ", ".join(str(table.name) for table in tables)
        raise Conflict(f"the run computes {named} by now, not what it began with", hint="begin again")
    for table in tables:
        if table.definition.fingerprint != fingerprints[table.name]:
            raise Conflict(f"the query of {table.name} has changed since the run began", hint="begin again")


def move_position(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, step: MoveCheckpoint) -> Writer:
    """Move the position of one table without a commit, in the caller's transaction; raises as `PipelinePins.move`."""
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    if target is None:
        raise NoSuchTable(f"Table does not exist: {table.name}")
    name = name_writer(pipeline.name, table.name)
    writer = uow.writers.lock(target.store_id, name)
    if writer is not None and (writer.epoch, writer.position) == (step.epoch, step.end):
        return writer
    check_progress(writer, Progress(writer=name, epoch=step.epoch, start=step.start, end=step.end, snapshot_id=0))
    assert writer is not None  # checked
    until = uow.checkpoints.find(table.id, step.end)
    if until is None or until.store_id != target.store_id:
        raise Invalid(f"{step.end!r} is no checkpoint of {table.name}")
    moved = replace(writer, position=step.end)
    uow.writers.put(moved)
    uow.checkpoints.note_exact(table.id, step.end, step.exact_at)
    return moved


def find_table(tables: Sequence[PipelineTable], name: TableName) -> PipelineTable:
    """The table of this name; Invalid if the run has none."""
    table = next((table for table in tables if table.name == name), None)
    if table is None:
        raise Invalid(f"{name} is no table of this run")
    return table


def _make_checkpoint(
    uow: UnitOfWork, job: Job, table: PipelineTable, target: Target, writer: Writer, inputs: Sequence[InputNow]
) -> StoredCheckpoint:
    """The pins of a run under a new id."""
    now, policy = uow.now(), load_target_policy(uow, table.catalog, table.name)
    return StoredCheckpoint(
        id=CheckpointId(str(uuid4())),
        table_id=table.id,
        job_id=job.id,
        store_id=target.store_id,
        writer=writer.name,
        fingerprint=table.definition.fingerprint,
        pinned_at=now,
        kept_until=now + policy[KEEP_INPUTS],
        pins=[StoredPin(relation_id=entry.relation.id, schema_id=entry.schema_id, pin=entry.pin) for entry in inputs],
    )
