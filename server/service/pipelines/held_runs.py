"""Runs that wait for approval: the server keeps their commit until a user publishes or discards it.

docs/protocols.md, rules 8.17 to 8.19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.commits.writers import check_progress
from catalog.errors import Conflict, PositionMoved, RequirementFailed, WriterFenced
from catalog.history.commit import TableCommit
from catalog.jobs.job import Job
from catalog.names import TableName
from catalog.pipelines.held_run import HeldTarget
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import PublishRun, TableChanges
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.pipelines.pins import find_table, move_position
from server.service.pipelines.run_commits import build_change, build_quarantine_change, read_step
from server.service.pipelines.runs import get_table
from server.service.pipelines.targets import fence_writer, find_quarantine, get_target


@dataclass(frozen=True)
class HeldRuns:
    """What users decide about held runs; the gate has checked that they may write the tables."""

    database: Database
    committer: Committer

    def publish(self, name: str, table: TableName) -> list[TableName]:
        """Commit the held run of a table, with all tables of the run; returns these.

        Raises Conflict if no run of the table is held, or if the tables have changed since; CommitUnknown as
        `Committer.commit`.
        """
        with self.database.reading() as uow:
            pipeline, tables, held = _read_held(uow, name, table)
            changes = [change for part in held for change in _build_changes(uow, pipeline, tables, part)]
        also = _plan_end(pipeline, tables, held)
        try:
            self.committer.commit(CommitRequest(catalog=pipeline.catalog, changes=changes, also=also))
        except (RequirementFailed, PositionMoved, WriterFenced) as error:
            raise Conflict(
                f"{table} has changed since the run computed it: {error.message}",
                hint=f"discard the run, and run again: `firn pipeline discard {name} {table}`",
            ) from error
        return [entry.name for entry in tables]

    def show(self, name: str, table: TableName) -> HeldTarget:
        """The part of a held run that is about a table, with some of the changed rows. Conflict as `publish`."""
        with self.database.reading() as uow:
            pipeline, _, held = _read_held(uow, name, table)
            table_id = get_table(uow, pipeline, table).id
        return next(part for part in held if part.table_id == table_id)

    def discard(self, name: str, table: TableName) -> list[TableName]:
        """Forget the held run of a table, with all tables of the run; returns these. Nothing publishes it any more.

        Raises Conflict if no run of the table is held. Orphan removal takes the files.
        """
        with self.database.writing() as uow:
            pipeline, tables, _ = _read_held(uow, name, table)
            for entry in sorted(tables, key=lambda entry: entry.id):
                fence_writer(uow, pipeline.name, entry)
            _read_held(uow, name, table)  # a publish may have been faster; from here on none is
            uow.held_runs.remove([entry.id for entry in tables])
            uow.pipelines.request_plans([pipeline.id], uow.now())
        return [entry.name for entry in tables]


def hold_run(
    uow: UnitOfWork, job: Job, pipeline: Pipeline, tables: Sequence[PipelineTable], request: PublishRun
) -> None:
    """Store the commit of a run instead of applying it, after the checks of a commit (rule 8.17)."""
    now = uow.now()
    for table_id in sorted(table.id for table in tables):
        uow.pipelines.lock_table(table_id)  # against another run's pins
    steps: dict[str, TableChanges | MoveCheckpoint] = {change.table: change for change in request.changes}
    steps |= {move.table: move for move in request.moves}
    quarantines = {TableName.parse(change.table): change for change in request.quarantines}
    for name, step in sorted(steps.items()):
        table = find_table(tables, TableName.parse(name))
        _check_step(uow, pipeline, table, step)
        quarantine = find_quarantine(uow, pipeline.name, table) if table.name in quarantines else None
        uow.held_runs.put(
            HeldTarget(
                table_id=table.id,
                job_id=job.id,
                store_id=get_target(uow, pipeline, table).store_id,
                held_at=now,
                change=step.model_dump(mode="json") if isinstance(step, TableChanges) else None,
                move=step.model_dump(mode="json") if isinstance(step, MoveCheckpoint) else None,
                sample=request.samples[name].model_dump(mode="json") if name in request.samples else None,
                quarantine_id=None if quarantine is None else quarantine.relation.id,
                quarantined=quarantines[table.name].model_dump(mode="json") if table.name in quarantines else None,
            )
        )


def _check_step(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, step: TableChanges | MoveCheckpoint) -> None:
    """Raise WriterFenced or PositionMoved as the commit would."""
    writer, progress = read_step(pipeline, table, step)
    stored = uow.writers.lock(get_target(uow, pipeline, table).store_id, writer)
    check_progress(stored, progress)


def _read_held(uow: UnitOfWork, name: str, table: TableName) -> tuple[Pipeline, list[PipelineTable], list[HeldTarget]]:
    """The pipeline, the tables of the held run, and what is held of each. Conflict if no run of the table is held."""
    pipeline = uow.pipelines.get(name)
    entry = get_table(uow, pipeline, table)
    tables = {of.id: of for of in uow.pipelines.tables_of([pipeline.id])[pipeline.id]}
    held = uow.held_runs.find(list(tables))
    own = held.get(entry.id)
    if own is None or own.published_at is not None:
        raise Conflict(f"no run of {entry.name} waits for approval", hint=f"`firn pipeline show {name}` says what does")
    parts = [part for part in held.values() if part.job_id == own.job_id]
    parts.sort(key=lambda part: str(tables[part.table_id].name))
    return pipeline, [tables[part.table_id] for part in parts], parts


def _build_changes(
    uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable], part: HeldTarget
) -> Iterator[TableCommit]:
    """The commits of one part: on the table, and on its quarantine."""
    if part.change is not None:
        yield build_change(uow, pipeline, tables, TableChanges.model_validate(part.change))
    if part.quarantined is not None:
        yield build_quarantine_change(uow, pipeline, tables, TableChanges.model_validate(part.quarantined))


def _plan_end(
    pipeline: Pipeline, tables: Sequence[PipelineTable], held: Sequence[HeldTarget]
) -> Callable[[UnitOfWork], None]:
    """For the transaction of the commit: move the tables without a snapshot, and end the hold."""

    def end(uow: UnitOfWork) -> None:
        for part in held:
            if part.move is not None:
                step = MoveCheckpoint.model_validate(part.move)
                move_position(uow, pipeline, find_table(tables, TableName.parse(step.table)), step)
            uow.held_runs.put(replace(part, published_at=uow.now(), sample=None))
        uow.pipelines.request_plans([pipeline.id], uow.now())

    return end
