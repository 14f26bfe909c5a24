"""Chunks that jobs compute beside live runs: takes and commits (docs/protocols.md, rules 8.24 to 8.28).

A take, a commit and each change of a backfill lock the table of the pipeline first; a commit does so before it locks
the table in the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import read_progress
from catalog.errors import CommitRefused, Conflict, NotFound
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.jobs.job import Job
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.spec import CHANGE, KeyedTable, KeyScope
from catalog.names import TableName
from catalog.pipelines.backfill import Backfill, BackfillId, Chunk, ChunkTake, DoneBeside, settle_backfill
from catalog.pipelines.beside import (
    BACKFILL,
    choose_chunk,
    end_chunk,
    find_bad_chunk,
    list_lanes,
    list_pending,
    take_chunk,
)
from catalog.pipelines.pipeline import Pipeline, PipelineTable, StoredCheckpoint, name_writer
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.backfills import BackfillStatus, RunChunks
from firn.protocol.beside import BACKFILL_KEY, ChunkState, CommitChunk
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.pipelines.chunk_claims import build_run_chunks, explain_chunk_misfit, fail_backfill, find_reached
from server.service.pipelines.rights import check_owner
from server.service.pipelines.runs import is_beside, read_run
from server.service.pipelines.targets import Target, check_target, get_target

_ACTIONS = frozenset({"add-snapshot", "set-snapshot-ref"})


class ChunkMoved(Conflict):
    """A live run has committed since the optimizer looked for the keys that it has written."""


class ChunkVoid(Conflict):
    """The job no longer has the chunk, or nobody may commit it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenChunk:
    """A chunk, with what its job reads and compares."""

    take: ChunkTake
    chunks: RunChunks
    at: StoredCheckpoint
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A job beside the runs of a table, in a transaction that has locked the table."""

    job: Job
    pipeline: Pipeline
    table: PipelineTable
    backfill: Backfill
    target: Target
    keyed: KeyedTable

    @property
    def store(self) -> str:
        return str(self.target.store_id)


@dataclass(frozen=True)
class BesideChunks:
    """The server's part of jobs that compute chunks beside live runs."""

    database: Database
    committer: Committer
    checks_rights: bool

    def take(self, lease: Lease, fingerprint: str) -> TakenChunk | str:
        """The next chunk for a job, at the table's checkpoint; or why there is none now.

        Asked again, it gives the chunk that the job has, at the checkpoint of now. Raises LeaseLost; NotFound, and
        Conflict if the table or its query is another one by now, or if the owner lacks a right.
        """
        with self.database.writing() as uow:
            side = _lock_side(uow, lease)
            check_target(side.target, side.table.definition)
            if self.checks_rights:
                check_owner(uow, side.pipeline, side.table, is_built=True)
            if side.table.definition.fingerprint != fingerprint:
                raise Conflict(f"the query of {side.table.name} has changed since the job began", hint="begin again")
            return _take(uow, side)

    def commit(self, lease: Lease, request: CommitChunk) -> ChunkState:
        """Commit a chunk with its rows, if it has some, in one transaction. A repeated request answers as the first.

        Raises LeaseLost, NotFound; CommitRefused for anything but rows without a position; Conflict if another commit
        came first; CommitUnknown as `Committer.commit`.
        """
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            if _is_committed(uow, job, request.take):
                return ChunkState.DONE
        commit = _ChunkCommit(lease, request)
        try:
            if request.change is None:
                with self.database.writing() as uow:
                    commit.check(uow)
                    commit.end(uow)
            else:
                change = _build_change(job, request)
                self.committer.commit(
                    CommitRequest(catalog=job.catalog, changes=[change], first=commit.check, also=commit.end)
                )
        except ChunkMoved:
            return ChunkState.MOVED
        except ChunkVoid:
            with self.database.reading() as uow:  # an earlier request may have been faster
                return ChunkState.DONE if _is_committed(uow, job, request.take) else ChunkState.VOID
        return ChunkState.DONE


@dataclass
class _ChunkCommit:
    """One request, whose transaction the server may try several times."""

    lease: Lease
    request: CommitChunk

    def check(self, uow: UnitOfWork) -> None:
        """Lock the pipeline's table, and raise ChunkVoid unless the job still has the chunk."""
        side = _lock_side(uow, self.lease)
        if _find_taken(side, self.request.take) is None:
            raise ChunkVoid("the job no longer has the chunk")
        if not side.backfill.status.is_open:  # live runs leave out unchanged rows by now
            raise ChunkVoid(f"backfill {side.backfill.id} is {side.backfill.status}")

    def end(self, uow: UnitOfWork) -> None:
        """Store that the chunk is done, if no live run has committed since the job looked for written keys.

        The table in the catalog is locked, if the chunk has rows.
        """
        side = _lock_side(uow, self.lease)
        chunk = _find_taken(side, self.request.take)
        assert chunk is not None  # checked, and the table is locked since
        assert chunk.take is not None
        self._check_position(uow, side, chunk.take)
        head = uow.stats.get(side.target.store_id).snapshot_id
        done = DoneBeside(take=chunk.take.id, store=side.store, version=side.keyed.version, snapshot=head)
        uow.backfills.put(end_chunk(side.backfill, chunk.number, done, uow.now()))

    def _check_position(self, uow: UnitOfWork, side: _Side, take: ChunkTake) -> None:
        writer = uow.writers.lock(side.target.store_id, name_writer(side.pipeline.name, side.table.name))
        position = NO_POSITION if writer is None else writer.position
        if position != self.request.position:
            raise ChunkMoved("a live run came first")
        if take.store != side.store or side.keyed.version < take.version:
            raise ChunkVoid("the table is no longer the one whose rows the job has compared")
        numbers = [uow.checkpoints.number_of(side.table.id, of) for of in (take.at, position)]
        if not 0 < numbers[0] <= numbers[1]:
            raise ChunkVoid("the table's history no longer has the checkpoint at which the job has read")


def check_store(uow: UnitOfWork, target: Target) -> None:
    """Raise Conflict for a table in which a key names no single row."""
    if target.relation.kind is not RelationKind.KEYED:
        raise Conflict(f"{target.relation.name} has no primary key", hint="request the backfill without --beside")
    if uow.keyed.get(target.relation.id).spec.scope is not KeyScope.GLOBAL:
        raise Conflict(
            f"keys of {target.relation.name} belong to its partitions", hint="request the backfill without --beside"
        )


def list_active_jobs(uow: UnitOfWork, backfill: Backfill) -> list[str]:
    """The ids of the jobs of a backfill that wait or work now."""
    lanes = list_lanes(backfill)
    return [str(job.id) for job in uow.jobs.active_of_many(lanes).values()] if lanes else []


def _lock_side(uow: UnitOfWork, lease: Lease) -> _Side:
    job = check_lease(uow.jobs.lock(lease.job_id), lease)
    if not is_beside(job):
        raise Conflict(f"job {job.id} computes no chunks beside runs", hint="pin its inputs instead")
    pipeline, pinned = read_run(uow, job)
    table = uow.pipelines.lock_table(pinned.id)
    backfill = uow.backfills.get(BackfillId(_read_id(job)))
    target = get_target(uow, pipeline, table)
    check_store(uow, target)
    keyed = uow.keyed.get(target.relation.id)
    return _Side(job=job, pipeline=pipeline, table=table, backfill=backfill, target=target, keyed=keyed)


def _take(uow: UnitOfWork, side: _Side) -> TakenChunk | str:
    """Choose a chunk, and note down that the job has it, with the checkpoint and version of now."""
    backfill = side.backfill
    position = _lock_position(uow, side)
    reached, at = find_reached(uow, side.table.id, position), uow.checkpoints.find(side.table.id, position)
    if at is None or at.fingerprint != side.table.definition.fingerprint or at.store_id != side.target.store_id:
        return "the next run computes all rows, which ends the backfill"
    pending, active = list_pending(backfill, reached), list_active_jobs(uow, backfill)
    if not pending and backfill.status.is_open:
        uow.backfills.put(settle_backfill(backfill, reached))
    if backfill.status is not BackfillStatus.ACTIVE or not pending:
        return f"backfill {backfill.id} is {backfill.status if pending else BackfillStatus.FINISHED}"
    if backfill.waits_for not in (None, position):
        return "a run computes all rows, which ends the backfill"
    problem = find_bad_chunk(pending, active) or _explain_misfit(uow, side, pending)
    if problem is not None:
        fail_backfill(uow, backfill, problem)
        return problem
    chunk = choose_chunk(pending, str(side.job.id), active)
    if chunk is None:
        return "other jobs compute the chunks that are left"
    version = uow.keyed.get(side.target.relation.id).version
    take = ChunkTake(id=str(uuid4()), job=str(side.job.id), at=at.id, store=side.store, version=version)
    uow.backfills.put(take_chunk(replace(backfill, waits_for=None), chunk.number, take))
    chunks = build_run_chunks(backfill, [chunk])
    return TakenChunk(take=take, chunks=chunks, at=at, writer=name_writer(side.pipeline.name, side.table.name))


def _lock_position(uow: UnitOfWork, side: _Side) -> str:
    """The position of the live runs' writer.

    No commit is half done then: a commit that has moved it has also given the table its next version.
    """
    writer = uow.writers.lock(side.target.store_id, name_writer(side.pipeline.name, side.table.name))
    return NO_POSITION if writer is None else writer.position


def _explain_misfit(uow: UnitOfWork, side: _Side, pending: Sequence[Chunk]) -> str | None:
    deterministic = uow.pipelines.get_version(side.pipeline.id, side.pipeline.version).deterministic
    return explain_chunk_misfit(side.backfill, pending, side.table, deterministic)


def _find_taken(side: _Side, take_id: str) -> Chunk | None:
    """The chunk of a take that nothing has ended, and that a run of all rows has not claimed since."""
    chunks = (chunk for chunk in side.backfill.pending if chunk.take is not None)
    return next((chunk for chunk in chunks if chunk.take is not None and chunk.take.id == take_id), None)


def _is_committed(uow: UnitOfWork, job: Job, take_id: str) -> bool:
    """Whether an earlier request has committed the chunk of a take."""
    try:
        backfill = uow.backfills.get(BackfillId(_read_id(job)))
    except NotFound:
        return False
    return any(chunk.beside is not None and chunk.beside.take == take_id for chunk in backfill.chunks)


def _read_id(job: Job) -> UUID:
    return UUID(job.params[BACKFILL])


def _build_change(job: Job, request: CommitChunk) -> TableCommit:
    """The commit on the change store. Raises CommitRefused for anything but a snapshot without a position."""
    assert request.change is not None
    if TableName.parse(request.change.table) != job.table:
        raise CommitRefused(f"the job computes chunks of {job.table}, not of {request.change.table}")
    updates = parse_updates(request.change.updates)
    summaries = [update["snapshot"].get("summary") or {} for update in updates if update["action"] == "add-snapshot"]
    is_rows = {update["action"] for update in updates} == _ACTIONS and read_progress(updates) is None
    if not is_rows or any(BACKFILL_KEY not in summary for summary in summaries):
        raise CommitRefused(f"a job of a backfill commits rows of {job.table} with {BACKFILL_KEY}, and no position")
    name = TableName(job.table.as_namespace, CHANGE)
    return TableCommit(name=name, requirements=request.change.requirements, updates=updates)
