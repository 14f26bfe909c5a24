"""Pins and checkpoints of pipelines: the states of inputs that a run computes rows from (docs/protocols.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from firn.protocol.answers.writers import WriterOut
from firn.protocol.backfills import RunChunks
from firn.protocol.base import Message, Request
from firn.protocol.pipeline_sets import MOST_TOGETHER

_Name = Annotated[str, Field(min_length=1, max_length=1_020)]
"""A table's name: up to four parts of 255 characters."""


class InputPin(Message):
    """The state of an input: a version of a keyed table, or a snapshot of a plain one; None for an empty table."""

    table: str
    table_uuid: str
    keyed: bool
    version: str | None


class Checkpoint(Message):
    """The pins that a table's rows were computed from. `id` is the position of the pipeline's writer on the table.

    `exact_at` is the state of the table with which the run compared what it computed, if the run knows that the rows
    are exactly those of a full computation at the pins unless others have changed the table since (rule 8.30).
    """

    id: str
    fingerprint: str
    pinned_at: datetime
    pins: list[InputPin]
    exact_at: str | None = None


class PinTarget(Request):
    """A table that a run computes, and the fingerprint of the query that the optimizer will run for it."""

    table: _Name
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PinRequest(Request):
    """Asked by an optimizer with its lease, when all targets of the run exist."""

    targets: Annotated[list[PinTarget], Field(min_length=1, max_length=MOST_TOGETHER)]


class TargetPins(Message):
    """What a run computes for one target: changes of the inputs from `since` to `until`, or all rows at `until`.

    `since` is None, and `full_reason` says why, if the rows cannot be computed from a checkpoint. `is_fallback` says
    that nobody wants this: it is not the first run, nor one after a reset, a new query, or a request for all rows.

    The registration of `writer` has ended all earlier copies of the run: a commit has to name its epoch,
    `writer.position` and `until.id`.

    `chunks` are part of the run: their rows are computed at `until`, too, and committed together (rule 8.9). With
    `has_backfills` the table has open backfills, whose chunks a run of all rows claims before it commits (rule 8.12).
    With `replay` the run computes the changes since this earlier checkpoint, too (rule 8.13). `commits_left` are the
    new commits of the inputs that the next run takes, because this one is bounded (rule 8.14). `quarantine_writer` is
    the writer at the table's quarantine, if it has one (rule 8.22). With `writes_unchanged` the run writes affected
    rows that are right already, too, because chunks are computed beside it (rule 8.26).
    """

    table: str
    writer: WriterOut
    since: Checkpoint | None
    full_reason: str | None
    is_fallback: bool = False
    until: Checkpoint
    chunks: RunChunks | None = None
    has_backfills: bool = False
    replay: Checkpoint | None = None
    commits_left: int = 0
    quarantine_writer: WriterOut | None = None
    writes_unchanged: bool = False


class Pins(Message):
    """The pins of a run: one entry for each target, in the order of the task.

    One transaction pins all inputs of all targets, so `until` names one state of an input that several targets read.
    """

    targets: list[TargetPins]


class MoveCheckpoint(Request):
    """Asked by an optimizer with its lease, if its inputs do not change `table`: the step without a commit.

    The server keeps `exact_at` with the checkpoint `end` (see `Checkpoint`).
    """

    table: _Name
    epoch: Annotated[int, Field(ge=1)]
    start: Annotated[str, Field(min_length=1, max_length=255)]
    end: Annotated[str, Field(min_length=1, max_length=255)]
    exact_at: Annotated[str | None, Field(pattern=r"^[0-9a-f:]{1,100}$")] = None
