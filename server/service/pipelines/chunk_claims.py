"""Chunks of backfills and the runs that compute them, in the transactions of runs (docs/protocols.md, rules 8.9-8.12).

All functions want the table locked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from catalog.errors import Conflict, NotFound
from catalog.jobs.job import Job
from catalog.pipelines.backfill import (
    Backfill,
    Chunk,
    Reached,
    check_table,
    choose_chunks,
    claim_chunks,
    find_failure,
    settle_backfill,
)
from catalog.pipelines.beside import check_beside, wait_for_full
from catalog.pipelines.pipeline import PipelineTable, PipelineTableId, StoredCheckpoint
from catalog.ports.store import UnitOfWork
from firn.protocol.backfills import BackfillStatus, RunChunk, RunChunks
from server.service.pipelines.conditions import explain_misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBackfills:
    """What the pins of a run say about backfills."""

    chunks: RunChunks | None
    """None if the run computes none."""
    is_open: bool
    """Whether the table has open backfills."""
    replay: StoredCheckpoint | None = None
    """The checkpoint since which the run computes changes again."""
    is_beside: bool = False
    """Whether jobs compute chunks beside the run, so that it writes affected rows that are right, too (rule 8.26)."""


def find_reached(uow: UnitOfWork, table_id: PipelineTableId, position: str) -> Reached:
    """Where a table is, by the position of its writer. An unknown one has no number: the next run computes all rows."""
    checkpoint = uow.checkpoints.find(table_id, position)
    if checkpoint is None:
        return Reached(position=position, number=None, at=uow.now())
    at, seconds = checkpoint.pinned_at, None
    with suppress(NotFound):  # the server forgets old jobs
        job = uow.jobs.get(checkpoint.job_id)
        if job.ended_at is not None and job.leased_at is not None:
            at, seconds = job.ended_at, (job.ended_at - job.leased_at).total_seconds()
    store = str(checkpoint.store_id)
    return Reached(position=position, number=checkpoint.number, at=at, store=store, seconds=seconds)


def settle_backfills(uow: UnitOfWork, table_id: PipelineTableId, position: str) -> list[Backfill]:
    """Store which chunks are done, and release all other claims; returns the open backfills, oldest first."""
    reached = find_reached(uow, table_id, position)
    settled = list[Backfill]()
    for backfill in uow.backfills.list_open(table_id, after=reached.number):
        settled.append(settle_backfill(backfill, reached))
        if settled[-1] != backfill:
            uow.backfills.put(settled[-1])
    return [backfill for backfill in settled if backfill.status.is_open]


def choose_run_chunks(
    uow: UnitOfWork, job: Job, table: PipelineTable, position: str, until: StoredCheckpoint, *, is_full: bool
) -> RunBackfills:
    """Let the new checkpoint claim chunks of the oldest active backfill (rule 8.9).

    A run that computes all rows claims them later (rule 8.12). A backfill that runs cannot compute fails here.
    """
    backfills = settle_backfills(uow, table.id, position)
    _end_waiting(uow, backfills)
    is_beside = any(backfill.beside is not None for backfill in backfills)
    if is_full or not backfills:
        return RunBackfills(chunks=None, is_open=bool(backfills), is_beside=is_beside)
    pipeline = uow.pipelines.get_by_id(table.pipeline_id)
    deterministic = uow.pipelines.get_version(pipeline.id, pipeline.version).deterministic
    for backfill in backfills:
        if backfill.status is not BackfillStatus.ACTIVE or backfill.beside is not None:
            continue
        chosen = choose_chunks(backfill)
        replay = None if backfill.since is None else uow.checkpoints.find(table.id, backfill.since)
        problem = find_failure(backfill) or explain_chunk_misfit(backfill, chosen, table, deterministic)
        if backfill.since is not None and replay is None:
            problem = "its checkpoint is forgotten"
        if problem is None:
            numbers = {chunk.number for chunk in chosen}
            uow.backfills.put(claim_chunks(backfill, numbers, until.id, str(job.id)))
            chunks = build_run_chunks(backfill, chosen) if replay is None else None
            return RunBackfills(chunks=chunks, is_open=True, replay=replay, is_beside=is_beside)
        fail_backfill(uow, backfill, problem)
    return RunBackfills(chunks=None, is_open=True, is_beside=is_beside)


def _end_waiting(uow: UnitOfWork, backfills: Sequence[Backfill]) -> None:
    """Let chunks beside live runs go on: these pins have ended the run of all rows for which they wait."""
    for backfill in backfills:
        if backfill.waits_for is not None:
            uow.backfills.put(replace(backfill, waits_for=None))


def claim_all_chunks(uow: UnitOfWork, job: Job, until: StoredCheckpoint) -> dict[str, list[int]]:
    """Let a checkpoint with all rows claim all chunks of the backfills that are older than its pins (rule 8.12).

    Returns the numbers of the chunks by the ids of their backfills. Jobs that compute chunks beside live runs commit
    none until the run has ended (rule 8.27).
    """
    claimed = dict[str, list[int]]()
    for backfill in uow.backfills.list_open(until.table_id, after=None):
        numbers = [chunk.number for chunk in backfill.pending]
        if backfill.beside is not None:  # its request ended the runs that had pinned before
            uow.backfills.put(wait_for_full(backfill, until.id))
            claimed[str(backfill.id)] = numbers
        elif backfill.created_at < until.pinned_at:
            uow.backfills.put(claim_chunks(backfill, numbers, until.id, str(job.id)))
            claimed[str(backfill.id)] = numbers
    return claimed


def explain_chunk_misfit(
    backfill: Backfill, chosen: Sequence[Chunk], table: PipelineTable, deterministic: Collection[str]
) -> str | None:
    """A new version of the pipeline may have given the table another scope, or another way to compute it."""
    check = check_table if backfill.beside is None else check_beside
    try:
        check(table.definition, is_built=True)
    except Conflict as conflict:
        return conflict.message
    if backfill.where is None:  # a replay
        return None
    conditions = [backfill.where, *(chunk.condition for chunk in chosen[:1])]
    return explain_misfit(conditions, table.definition.scope, deterministic)


def fail_backfill(uow: UnitOfWork, backfill: Backfill, problem: str) -> None:
    """Give up a backfill until a user resumes it."""
    uow.backfills.put(replace(backfill, status=BackfillStatus.FAILED, error=problem, ended_at=uow.now()))


def build_run_chunks(backfill: Backfill, chosen: Sequence[Chunk]) -> RunChunks:
    """Chunks of a backfill as an optimizer gets them."""
    chunks = [RunChunk(number=chunk.number, condition=chunk.condition) for chunk in chosen]
    return RunChunks(backfill=str(backfill.id), where=backfill.where or "true", chunks=chunks)
