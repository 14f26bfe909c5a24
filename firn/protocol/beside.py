"""Chunks that jobs compute beside the live runs of a table, as optimizer and server exchange them.

The rules are 8.24 to 8.28 of docs/protocols.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.backfills import RunChunks
from firn.protocol.base import Message, Request
from firn.protocol.pipeline_pins import Checkpoint
from firn.protocol.pipelines import TableChanges

BACKFILL_KEY = "firn.pipeline.backfill"
"""Entry of a snapshot's summary: the backfill and the number of the chunk that it brings, as ID/NUMBER."""


class TakeChunk(Request):
    """Asked by an optimizer with its lease: the next chunk of its backfill, for the query with this fingerprint."""

    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Take(Message):
    """A chunk that the job computes now, at the table's checkpoint `at`.

    `version` is the table's version at that checkpoint: the chunk is compared with the rows of this version, and leaves
    out the keys that were written after it. `writer` is the name of the live runs' writer. `id` names the take.
    """

    id: str
    chunks: RunChunks
    at: Checkpoint
    version: int
    writer: str


class TakenChunk(Message):
    """The chunk, or none, with the reason for people."""

    take: Take | None
    reason: str = ""


class CommitChunk(Request):
    """Asked by an optimizer with its lease: the rows of a chunk, or none if it changes no row.

    `position` is that of the table's writer when the optimizer has looked for the keys that others have written.
    """

    take: Annotated[str, Field(min_length=1, max_length=64)]
    position: Annotated[str, Field(min_length=1, max_length=255)]
    change: TableChanges | None = None


class ChunkState(StrEnum):
    """What became of a chunk that an optimizer has sent."""

    DONE = "done"  # it is committed, now or by an earlier request
    MOVED = "moved"  # a live run has committed since the optimizer looked: it has to look again
    VOID = "void"  # the job no longer has the chunk


class ChunkCommitted(Message):
    """The answer to the commit of a chunk."""

    state: ChunkState
