"""Chunks of backfills that jobs compute beside the live runs of a table (docs/protocols.md, rules 8.24 to 8.28)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from uuid import uuid5

from catalog.errors import Conflict
from catalog.names import RelationId, fold_case
from catalog.pipelines.backfill import (
    MOST_ATTEMPTS,
    Backfill,
    Chunk,
    ChunkTake,
    DoneBeside,
    Reached,
    check_table,
    is_done,
)
from catalog.pipelines.pipeline import CheckpointId
from firn.protocol.backfills import BackfillStatus
from firn.protocol.pipeline_outputs import AuditMode, OutputMode
from firn.protocol.pipelines import TableDefinition

BACKFILL, TABLE, SECONDS = "backfill", "table_id", "chunk_seconds"
"""Parameters of a job that computes chunks beside live runs."""
MOST_FAILED_JOBS = 3
"""The failed jobs in a row after which a backfill fails, even if none of them has taken a chunk."""


def check_beside(definition: TableDefinition, *, is_built: bool) -> None:
    """Raise Conflict for a table whose chunks cannot be computed beside its live runs, or at all.

    Live runs have to write a delete for each affected value without a row (rule 8.26), so a value of the scope has to
    name one key.
    """
    check_table(definition, is_built=is_built)
    problem = _explain_unfit(definition)
    if problem is not None:
        hint = "request the backfill without --beside: its chunks are part of live runs then"
        raise Conflict(f"chunks of {definition.name} cannot be computed beside its runs: {problem}", hint=hint)


def _explain_unfit(definition: TableDefinition) -> str | None:
    if definition.output_mode is not OutputMode.UPSERT:
        return "others write its rows" if definition.output_mode is OutputMode.COLUMNS else "it has no key"
    if not {fold_case(name) for name in definition.key} <= {fold_case(name) for name in definition.scope}:
        return f"its scope {', '.join(definition.scope)} does not name one key ({', '.join(definition.key)})"
    if definition.consistent:
        return "it moves together with other tables"
    if definition.audit is AuditMode.HOLD:
        return "its commits wait for approval"
    return None if definition.quarantine is None else "its validators drop rows"


def list_lanes(backfill: Backfill) -> list[RelationId]:
    """The subjects of the jobs of a backfill, of which each has at most one active job."""
    return [RelationId(uuid5(backfill.id, str(lane))) for lane in range(backfill.beside or 0)]


def list_pending(backfill: Backfill, reached: Reached) -> list[Chunk]:
    """The chunks that the table does not have."""
    return [chunk for chunk in backfill.chunks if not is_done(chunk, reached)]


def choose_chunk(pending: Collection[Chunk], job: str, active: Collection[str]) -> Chunk | None:
    """The chunk that a job computes next: the one that it has, or the first that no `active` job has; None without."""
    own = (chunk for chunk in pending if chunk.take is not None and chunk.take.job == job)
    free = (chunk for chunk in pending if chunk.take is None or chunk.take.job not in active)
    return next(own, None) or next(free, None)


def find_bad_chunk(pending: Collection[Chunk], active: Collection[str]) -> str | None:
    """Why the backfill fails: a chunk that jobs have tried too often, and that none of the active ones has."""
    for chunk in pending:
        is_taken = chunk.take is not None and chunk.take.job in active
        if chunk.attempts >= MOST_ATTEMPTS and not is_taken:
            tried = f"{chunk.attempts} jobs have tried chunk {chunk.number} ({chunk.condition})"
            return f"{tried}, and none has committed it: `firn job list` shows why"
    return None


def take_chunk(backfill: Backfill, number: int, take: ChunkTake) -> Backfill:
    """The backfill with a chunk for a job. All takes of one job count as one attempt."""

    def change(chunk: Chunk) -> Chunk:
        if chunk.number != number:
            return chunk
        attempts = chunk.attempts + (chunk.tried_by != take.job)
        return replace(chunk, take=take, attempts=attempts, tried_by=take.job)

    return replace(backfill, chunks=[change(chunk) for chunk in backfill.chunks])


def wait_for_full(backfill: Backfill, checkpoint: CheckpointId) -> Backfill:
    """The backfill whose pending chunks a run of all rows ends, if it commits (rules 8.12 and 8.27).

    No job has a chunk any more: the server refuses what those that work now have computed.
    """

    def change(chunk: Chunk) -> Chunk:
        return chunk if chunk.is_stored_done else replace(chunk, claim=checkpoint, take=None)

    return replace(backfill, waits_for=checkpoint, chunks=[change(chunk) for chunk in backfill.chunks])


def end_chunk(backfill: Backfill, number: int, done: DoneBeside, now: datetime) -> Backfill:
    """The backfill with a chunk that is committed beside the live runs; finished with the last one."""

    def change(chunk: Chunk) -> Chunk:
        if chunk.number != number:
            return chunk
        return replace(chunk, take=None, beside=done, done_at=now, attempts=0, tried_by=None)

    ended = replace(backfill, chunks=[change(chunk) for chunk in backfill.chunks])
    if ended.pending:
        return ended
    return replace(ended, status=BackfillStatus.FINISHED, ended_at=now, finished_by=0, error=None)
