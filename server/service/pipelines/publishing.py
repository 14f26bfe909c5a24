"""Commits of runs: one transaction commits the snapshots of all targets, and moves the positions of the others.

docs/protocols.md, rule 8.15.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from catalog.commits.writers import name_writer_with_progress, read_progress
from catalog.errors import CommitRefused, Conflict, NoSuchTable
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.spec import CHANGE
from catalog.names import TableName
from catalog.pipelines.pipeline import Pipeline, PipelineTable, name_writer
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.pipelines import MoveCheckpoint, PublishRun, TableChanges
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.pipelines.pins import find_table, move_position
from server.service.pipelines.runs import read_run_tables
from server.service.pipelines.targets import find_target

_ACTIONS = frozenset({"add-snapshot", "set-snapshot-ref"})


@dataclass(frozen=True)
class RunPublishing:
    """The commits of runs of several tables, under the run's lease."""

    database: Database
    committer: Committer

    def publish(self, lease: Lease, request: PublishRun) -> list[TableName]:
        """Commit all targets of a run, or none; returns their names. A repeated request succeeds.

        Raises LeaseLost; Conflict if the request is not about all targets that the run has by now, or if another commit
        came first; WriterFenced and PositionMoved if another run did; CommitRefused for anything but snapshots of the
        run's own writers. CommitUnknown as `Committer.commit`.
        """
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            pipeline, tables = read_run_tables(uow, job)
            _check_complete(tables, [*(change.table for change in request.changes), *(m.table for m in request.moves)])
            changes = [_build_change(uow, pipeline, tables, change) for change in request.changes]
        if changes:
            moves = _plan_moves(pipeline, request.moves)
            self.committer.commit(CommitRequest(catalog=tables[0].catalog, changes=changes, also=moves))
        else:
            with self.database.writing() as uow:
                _plan_moves(pipeline, request.moves)(uow)
        return [table.name for table in tables]


def _check_complete(tables: Sequence[PipelineTable], names: Collection[str]) -> None:
    """Raise Conflict unless the request names each target of the run once."""
    named = [TableName.parse(name) for name in names]
    if len(named) != len(tables) or set(named) != {table.name for table in tables}:
        targets = ", ".join(str(table.name) for table in tables)
        raise Conflict(f"the run commits {targets} by now, not what it has computed", hint="begin again")


def _build_change(
    uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable], change: TableChanges
) -> TableCommit:
    """The commit on the table, or on the change store of a keyed one."""
    table = find_table(tables, TableName.parse(change.table))
    updates = parse_updates(change.updates)
    writer, progress = name_writer(pipeline.name, table.name), read_progress(updates)
    if {update["action"] for update in updates} != _ACTIONS or name_writer_with_progress(updates) != writer:
        raise CommitRefused(f"a run of {table.name} commits snapshots of the writer {writer!r} alone")
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    if target is None:
        raise NoSuchTable(f"Table does not exist: {table.name}")
    if progress is not None and uow.checkpoints.find(table.id, progress.end) is None:
        raise CommitRefused(f"{progress.end!r} is no checkpoint of {table.name}")
    is_keyed = target.relation.kind is RelationKind.KEYED
    name = TableName(table.name.as_namespace, CHANGE) if is_keyed else table.name
    return TableCommit(name=name, requirements=change.requirements, updates=updates)


def _plan_moves(pipeline: Pipeline, moves: Sequence[MoveCheckpoint]) -> Callable[[UnitOfWork], None]:
    """The steps without a commit, for the transaction of the commit of the others."""

    def move(uow: UnitOfWork) -> None:
        tables = uow.pipelines.tables_of([pipeline.id])[pipeline.id]
        for step in sorted(moves, key=lambda step: step.table):
            move_position(uow, pipeline, find_table(tables, TableName.parse(step.table)), step)

    return move
