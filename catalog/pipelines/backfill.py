"""Backfills of pipelines' tables: which chunks are done, and which ones a run takes.

docs/protocols.md, rules 8.9 to 8.13. `catalog.pipelines.beside` has the rules of chunks beside live runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NewType
from uuid import UUID

from catalog.errors import Conflict
from catalog.pipelines.pipeline import CheckpointId, PipelineTableId
from firn.protocol.backfills import BackfillStatus
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import Refresh, TableDefinition

BackfillId = NewType("BackfillId", UUID)

MOST_ATTEMPTS = 2
"""The runs that may claim a chunk without a commit. Then its backfill fails, and live runs go on without it.

Triggers start no run after three failures in a row, so a bad chunk must not have part in the third one.
"""
MOST_OPEN = 20
"""The backfills of a table that may be active or paused at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTake:
    """A job's hold on a chunk that it computes beside live runs. `id` is new with each take."""

    id: str
    job: str
    at: CheckpointId
    """The checkpoint at which it reads the inputs."""
    store: str
    """The change store of the table, which another table of the same name does not have."""
    version: int
    """The version of the table with whose rows it compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneBeside:
    """The commit of a chunk beside live runs. Without rows, `snapshot` is the head that had nothing to change."""

    take: str
    store: str
    version: int
    snapshot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a backfill."""

    number: int
    condition: str
    claim: CheckpointId | None = None
    """The checkpoint of the run that computes it."""
    attempts: int = 0
    """The runs that have claimed it since a run has committed it."""
    tried_by: str | None = None
    """The last one of these, by the id of its job, whose attempts count as one."""
    done_by: int | None = None
    """The number of the checkpoint that ended it."""
    done_at: datetime | None = None
    take: ChunkTake | None = None
    """The job that computes it beside live runs."""
    beside: DoneBeside | None = None
    """The commit that ended it beside live runs; `done_by` is None then."""

    @property
    def is_stored_done(self) -> bool:
        """Whether the stored chunk is done, whatever the table has by now."""
        return self.done_by is not None or self.beside is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A request to recompute rows of a table; a replay if it has `since`, the id of a checkpoint."""

    id: BackfillId
    table_id: PipelineTableId
    where: str | None
    """A condition over the scope in Spark's SQL."""
    since: CheckpointId | None = None
    status: BackfillStatus = BackfillStatus.ACTIVE
    created_at: datetime
    created_by: str | None = None
    ended_at: datetime | None = None
    error: str | None = None
    chunk_seconds: int
    last_chunks: int = 0
    """The number of chunks of the last run that committed some, and how long it took."""
    last_seconds: float | None = None
    finished_by: int | None = None
    """The number of the checkpoint that ended the last chunk, of a finished backfill."""
    beside: int | None = None
    """The number of jobs that compute chunks beside live runs; None if the runs themselves do."""
    active_since: datetime | None = None
    """When a user resumed it after a failure; None if no user did."""
    waits_for: CheckpointId | None = None
    """The checkpoint of a run of all rows, for which chunks beside live runs wait."""
    chunks: Sequence[Chunk]

    @property
    def pending(self) -> list[Chunk]:
        """The chunks that are not done, as they are stored."""
        return [chunk for chunk in self.chunks if not chunk.is_stored_done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Where the table is: the checkpoint at its writer's position, with its number.

    `number` is None after a reset, and 0 if the database does not know the position.
    """

    position: str
    number: int | None
    at: datetime
    store: str | None = None
    """The change store of the table; None if it is not known."""
    seconds: float | None = None
    """How long the run took that has brought the table there, once it has ended."""


def check_table(definition: TableDefinition, *, is_built: bool) -> None:
    """Raise Conflict for a table whose ranges cannot be computed by themselves, or need not."""
    full = f"`firn pipeline run --full` computes all rows of {definition.name}"
    if definition.output_mode is OutputMode.APPEND:
        raise Conflict(f"{definition.name} has mode: append, so no run computes rows again", hint=full)
    if definition.refresh is Refresh.FULL or not definition.incremental or not definition.scope:
        raise Conflict(f"each run computes all rows of {definition.name}, so it has no ranges", hint=full)
    if not is_built:
        raise Conflict(f"the next run computes all rows of {definition.name} anyway", hint="run the table first")


def is_done(chunk: Chunk, reached: Reached) -> bool:
    """Whether the table has the rows of a chunk (rules 8.9, 8.11 and 8.28)."""
    if chunk.beside is not None and reached.store in (None, chunk.beside.store):
        return True
    if chunk.done_by is not None and (reached.number is None or chunk.done_by <= reached.number):
        return True
    return chunk.claim is not None and chunk.claim == reached.position


def settle_chunk(chunk: Chunk, reached: Reached) -> Chunk:
    """The chunk as pins store it: done, or free for the next run."""
    if not is_done(chunk, reached):
        return replace(chunk, claim=None, done_by=None, done_at=None, beside=None)
    if chunk.claim != reached.position:
        return replace(chunk, claim=None)
    return replace(chunk, claim=None, done_by=reached.number, done_at=reached.at, attempts=0, tried_by=None)


def settle_backfill(backfill: Backfill, reached: Reached) -> Backfill:
    """A backfill as pins store it: one that a rollback of the table has taken a chunk from is active again."""
    chunks = [settle_chunk(chunk, reached) for chunk in backfill.chunks]
    ended = [chunk for chunk in backfill.chunks if chunk.claim is not None and chunk.claim == reached.position]
    settled = replace(backfill, chunks=chunks)
    if ended and reached.seconds is not None:
        settled = replace(settled, last_chunks=len(ended), last_seconds=reached.seconds)
    if not settled.pending and backfill.status.is_open:
        by = max(chunk.done_by or 0 for chunk in chunks)
        ended_at = max((chunk.done_at for chunk in chunks if chunk.beside and chunk.done_at), default=reached.at)
        return replace(settled, status=BackfillStatus.FINISHED, ended_at=max(ended_at, reached.at), finished_by=by)
    if settled.pending and backfill.status is BackfillStatus.FINISHED:
        return replace(settled, status=BackfillStatus.ACTIVE, ended_at=None, finished_by=None)
    return settled


def find_failure(backfill: Backfill) -> str | None:
    """Why runs go on without an active backfill; None if they take its chunks."""
    tried = next((chunk for chunk in backfill.pending if chunk.attempts >= MOST_ATTEMPTS), None)
    if tried is None:
        return None
    kind = "the replay" if backfill.since is not None else f"chunk {tried.number} ({tried.condition})"
    return f"{tried.attempts} runs have tried {kind}, and none has committed it: `firn pipeline runs` shows why"


def choose_chunks(backfill: Backfill) -> list[Chunk]:
    """The chunks that the next run takes: as many as fit, by the time of the last run.

    A run takes one chunk at first, and after a failure, and never more than twice as many as the last one.
    """
    tried = [chunk for chunk in backfill.pending if chunk.attempts]
    if tried:
        return tried[:1]
    if not backfill.last_chunks or backfill.last_seconds is None:
        return backfill.pending[:1]
    fitting = int(backfill.chunk_seconds * backfill.last_chunks / max(backfill.last_seconds, 0.1))
    return backfill.pending[: max(1, min(fitting, 2 * backfill.last_chunks))]


def claim_chunks(backfill: Backfill, chosen: Collection[int], checkpoint: CheckpointId, run: str) -> Backfill:
    """The backfill with these chunks, by their numbers, for the run that may bring the checkpoint (its job's id)."""

    def claim(chunk: Chunk) -> Chunk:
        attempts = chunk.attempts + (chunk.tried_by != run)
        return replace(chunk, claim=checkpoint, attempts=attempts, tried_by=run)

    return replace(backfill, chunks=[claim(chunk) if chunk.number in chosen else chunk for chunk in backfill.chunks])


def change_status(backfill: Backfill, status: BackfillStatus, now: datetime) -> Backfill:
    """Pause, resume or cancel a backfill. A failed one may be resumed: its chunks are tried again.

    Raises Conflict for a backfill that has ended.
    """
    is_again = status is BackfillStatus.ACTIVE and backfill.status is BackfillStatus.FAILED
    if not backfill.status.is_open and not is_again:
        raise Conflict(f"backfill {backfill.id} is {backfill.status}", hint="request another one")
    chunks = backfill.chunks
    if is_again:
        chunks = [replace(chunk, attempts=0, tried_by=None, take=None) for chunk in chunks]
    ended_at = None if status.is_open else now
    active_since = now if is_again else backfill.active_since
    return replace(backfill, status=status, ended_at=ended_at, error=None, chunks=chunks, active_since=active_since)
