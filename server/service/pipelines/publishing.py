"""Commits of runs: one transaction commits the snapshots of all targets, and moves the positions of the others.

docs/protocols.md, rule 8.15. The commit of a run that waits for approval is stored instead (rule 8.17).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from catalog.errors import Conflict
from catalog.jobs.leases import Lease, check_lease
from catalog.names import TableName
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import PublishRun
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.pipelines.held_runs import hold_run
from server.service.pipelines.pins import find_table, move_position
from server.service.pipelines.run_commits import build_change, build_quarantine_change
from server.service.pipelines.runs import check_live, read_run_tables, waits_for_approval


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """The targets of a run, and whether they wait for approval instead of being committed."""

    tables: Sequence[TableName]
    is_held: bool


@dataclass(frozen=True)
class RunPublishing:
    """The commits of runs of several tables, and of runs that wait for approval, under the run's lease."""

    database: Database
    committer: Committer

    def publish(self, lease: Lease, request: PublishRun) -> PublishedRun:
        """Commit all targets of a run, or none; or hold them. A repeated request succeeds.

        Raises LeaseLost; Conflict if the request is not about all targets that the run has by now, or if another commit
        came first; WriterFenced and PositionMoved if another run did; CommitRefused for anything but snapshots of the
        run's own writers. CommitUnknown as `Committer.commit`.
        """
        with self.database.reading() as uow:
            job = check_live(check_lease(uow.jobs.get(lease.job_id), lease))
            pipeline, tables = read_run_tables(uow, job)
            _check_complete(tables, [*(change.table for change in request.changes), *(m.table for m in request.moves)])
            changes = [build_change(uow, pipeline, tables, change) for change in request.changes]
            dropped = [build_quarantine_change(uow, pipeline, tables, change) for change in request.quarantines]
        names = [table.name for table in tables]
        if changes and waits_for_approval(tables):
            with self.database.writing() as uow:
                hold_run(uow, check_lease(uow.jobs.lock(lease.job_id), lease), pipeline, tables, request)
            return PublishedRun(names, is_held=True)
        moves = _plan_moves(pipeline, request.moves)
        if changes or dropped:
            self.committer.commit(CommitRequest(catalog=tables[0].catalog, changes=[*changes, *dropped], also=moves))
        else:
            with self.database.writing() as uow:
                moves(uow)
        return PublishedRun(names, is_held=False)


def _check_complete(tables: Sequence[PipelineTable], names: Collection[str]) -> None:
    """Raise Conflict unless the request names each target of the run once."""
    named = [TableName.parse(name) for name in names]
    if len(named) != len(tables) or set(named) != {table.name for table in tables}:
        targets = ", ".join(str(table.name) for table in tables)
        raise Conflict(f"the run commits {targets} by now, not what it has computed", hint="begin again")


def _plan_moves(pipeline: Pipeline, moves: Sequence[MoveCheckpoint]) -> Callable[[UnitOfWork], None]:
    """The steps without a commit, for the transaction of the commit of the others."""

    def move(uow: UnitOfWork) -> None:
        tables = uow.pipelines.tables_of([pipeline.id])[pipeline.id]
        for step in sorted(moves, key=lambda step: step.table):
            move_position(uow, pipeline, find_table(tables, TableName.parse(step.table)), step)

    return move
