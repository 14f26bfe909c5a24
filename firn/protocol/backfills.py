"""Backfills and replays of pipelines' tables, as client, server and optimizer exchange them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Message, Open, Out, Request

LONGEST_CONDITION = 4_000
MOST_CHUNKS = 1_000
MOST_DEFAULT_CHUNKS = 100
HASHED_CHUNKS = 8
"""The number of chunks of a condition that has no range, unless the user says another one."""
CHUNK_SECONDS = 300


class BackfillStatus(StrEnum):
    """The state of a backfill."""

    ACTIVE = "active"  # the next runs take its chunks
    PAUSED = "paused"  # until a user resumes it
    FINISHED = "finished"  # all chunks are committed
    CANCELED = "canceled"  # a user gave it up; committed chunks stay
    FAILED = "failed"  # runs could not compute a chunk, or the replay's checkpoint is gone

    @property
    def is_open(self) -> bool:
        """Whether it may still get more chunks done."""
        return self in (BackfillStatus.ACTIVE, BackfillStatus.PAUSED)


class BackfillRequest(Request):
    """A backfill of the rows of one table that a condition selects, asked for by a user.

    `where` is Spark SQL over columns of the table's scope. `chunks` is the number of chunks; None lets the server
    choose. A run takes as many chunks as it computes in about `chunk_seconds`. With `dry_run` nothing is stored.
    """

    table: Annotated[str, Field(min_length=1, max_length=1_020)]
    where: Annotated[str, Field(min_length=1, max_length=LONGEST_CONDITION)]
    chunks: Annotated[int | None, Field(ge=1, le=MOST_CHUNKS)] = None
    chunk_seconds: Annotated[int, Field(ge=1, le=86_400)] = CHUNK_SECONDS
    dry_run: bool = False


class ReplayRequest(Request):
    """A replay of what has changed since a checkpoint; None is the oldest one that can be used."""

    checkpoint: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    dry_run: bool = False


class ChunkOut(Out):
    """A chunk: the condition by which it is a part of the backfill's `where`. `state` is pending, running or done."""

    number: int
    condition: str
    state: str
    attempts: int
    done_at: datetime | None


class ReplayedInput(Out):
    """An input that a replay reads again: the version that it had, and the one that it has now."""

    table: str
    since: str | None
    until: str | None


class BackfillOut(Out):
    """A backfill, or a replay if `since` names a checkpoint. `id` is empty for a dry run.

    Times are None until they have come. `inputs` says what a replay reads again.
    """

    id: str
    pipeline: str
    table: str
    where: str | None
    since: str | None
    status: Open[BackfillStatus]
    error: str | None
    created_at: datetime
    created_by: str | None
    ended_at: datetime | None
    chunk_seconds: int
    total: int
    done: int
    chunks: list[ChunkOut] = []
    inputs: list[ReplayedInput] = []


class CheckpointOut(Out):
    """The pins of one run. A replay can go back to it, unless `unusable` says why not."""

    id: str
    pinned_at: datetime
    is_current: bool
    unusable: str | None
    versions: dict[str, str | None]


class RunChunk(Message):
    """A chunk that a run computes: the rows of the backfill's condition that match this one, too."""

    number: int
    condition: str


class RunChunks(Message):
    """What a run computes for a backfill: the rows of `where` in these chunks.

    Those of a replay are what has changed since the checkpoint `replays` (an id, whose pins come with the run's pins).
    """

    backfill: str
    where: str | None = None
    replays: str | None = None
    chunks: list[RunChunk]


class ClaimRequest(Request):
    """Asked by an optimizer with its lease, before it commits all rows of a table: all chunks end with this commit."""

    epoch: Annotated[int, Field(ge=1)]
    checkpoint: Annotated[str, Field(min_length=1, max_length=64)]


class Claimed(Message):
    """The chunks that end with the commit, by their backfills' ids."""

    chunks: dict[str, list[int]]
