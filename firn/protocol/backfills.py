"""Backfills of pipelines' tables, as client, server and optimizer exchange them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from firn.protocol.base import Message, Open, Out, Request

LONGEST_CONDITION = 4_000
MOST_CHUNKS = 1_000
MOST_DEFAULT_CHUNKS = 100
HASHED_CHUNKS = 8
"""The number of chunks of a condition that has no range, unless the user says another one."""
CHUNK_SECONDS = 300
MOST_BESIDE = 32
"""The most jobs that compute chunks of one backfill beside live runs."""


class BackfillStatus(StrEnum):
    """The state of a backfill."""

    ACTIVE = "active"  # the next runs take its chunks
    PAUSED = "paused"  # until a user resumes it
    FINISHED = "finished"  # all chunks are committed
    CANCELED = "canceled"  # a user gave it up; committed chunks stay
    FAILED = "failed"  # runs could not compute a chunk, or the table has another scope by now

    @property
    def is_open(self) -> bool:
        """Whether it may still get more chunks done."""
        return self in (BackfillStatus.ACTIVE, BackfillStatus.PAUSED)


class BackfillRequest(Request):
    """A backfill of the rows of a table that a condition selects, asked for by a user.

    `where` is Spark SQL over columns of the table's scope. `chunks` is the number of chunks; None lets the server
    choose. A run takes as many chunks as it computes in about `chunk_seconds`. With `dry_run` nothing is stored.

    With `beside`, so many jobs compute the chunks beside the live runs, instead of these
    (docs/protocols.md, rule 8.24). A request with the `idempotency_key` of an earlier one of the same user stores no
    backfill, and answers the backfill of the earlier one.
    """

    where: Annotated[str, Field(min_length=1, max_length=LONGEST_CONDITION)]
    chunks: Annotated[int | None, Field(ge=1, le=MOST_CHUNKS)] = None
    chunk_seconds: Annotated[int, Field(ge=1, le=86_400)] = CHUNK_SECONDS
    beside: Annotated[int | None, Field(ge=1, le=MOST_BESIDE)] = None
    dry_run: bool = False
    idempotency_key: Annotated[str | None, Field(pattern=r"^[!-~]{1,200}$")] = None


class ReplayRequest(Request):
    """A replay of what has changed since a checkpoint of a table, asked for by a user.

    `checkpoint` is its id, or `at` a time: the newest checkpoint up to this time counts. Without both, it is the oldest
    one that can be used. With `dry_run` nothing is stored.
    """

    checkpoint: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    at: AwareDatetime | None = None
    dry_run: bool = False


class ChunkOut(Out):
    """A chunk: the condition by which it is a part of the backfill's `where`. `state` is pending, running or done."""

    number: int
    condition: str
    state: str
    attempts: int
    done_at: datetime | None


class BackfillOut(Out):
    """A backfill with its chunks. `id` is empty for a dry run, and times are None until they have come.

    `done` of `total` chunks are committed. A replay has no `where`. It computes again what has changed `since` a
    checkpoint, by its id. With `beside`, at most so many jobs compute chunks beside the live runs; `jobs` are the ids
    of those that wait or work now.
    """

    id: str
    pipeline: str
    table: str
    where: str | None
    since: str | None = None
    status: Open[BackfillStatus]
    error: str | None
    created_at: datetime
    created_by: str | None
    ended_at: datetime | None
    chunk_seconds: int
    beside: int | None = None
    jobs: list[str] = []
    total: int
    done: int
    chunks: list[ChunkOut]


class RunChunk(Message):
    """A chunk that a run computes: the rows of the backfill's condition that match this one, too."""

    number: int
    condition: str


class RunChunks(Message):
    """What a run computes for a backfill: the rows of `where` in these chunks."""

    backfill: str
    where: str
    chunks: list[RunChunk]


class ClaimRequest(Request):
    """Asked by an optimizer with its lease, before it commits all rows of a table: all chunks end with this commit."""

    table: Annotated[str, Field(min_length=1, max_length=1_020)]
    epoch: Annotated[int, Field(ge=1)]
    checkpoint: Annotated[str, Field(min_length=1, max_length=64)]


class Claimed(Message):
    """The chunks that end with the commit, by their backfills' ids."""

    chunks: dict[str, list[int]]
