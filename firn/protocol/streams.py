"""Streams, the second class of leased work beside jobs: states, leases, heartbeats and reports of an optimizer."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Message, Request
from firn.protocol.leases import LONGEST_WAIT, Memory

LONGEST_REASON = 4_000
MOST_LINES = 100
_Reason = Annotated[str, Field(max_length=LONGEST_REASON)]
_Lines = Annotated[list[Annotated[str, Field(max_length=LONGEST_REASON)]], Field(max_length=MOST_LINES)]


class StreamKind(StrEnum):
    """The kinds of streams."""

    DRAIN = "drain"  # brings the records of a topic into its table


class StreamStatus(StrEnum):
    """The state of a stream."""

    WAITING = "waiting"  # for an optimizer, or for its next attempt
    RUNNING = "running"  # one optimizer holds the lease
    PAUSED = "paused"  # until a user resumes it
    STOPPED = "stopped"  # until a user restarts it; it states reason and remedy


class StreamOutcome(StrEnum):
    """The end of an attempt, as its optimizer saw it."""

    HANDED_BACK = "handed-back"  # the optimizer stops, or another copy drains the table
    FAILED = "failed"  # the next attempt may succeed
    STOPPED = "stopped"  # no attempt succeeds before a user acts


class StreamLeaseRequest(Request):
    """The time that an optimizer waits for a stream, and its memory use."""

    optimizer_id: str
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = LONGEST_WAIT
    memory: Memory = {}


class StreamLease(Message):
    """A stream and everything needed to run it.

    The lease registers the optimizer as the log's writer: `writer_epoch` and `position` are those of the registration.
    `password` is that of the connection's user. `delegation` has the values of the header X-Iceberg-Access-Delegation.
    """

    lease: str
    lease_seconds: float
    heartbeat_seconds: float
    stream_id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    attempt: int
    kind: StreamKind
    catalog: str
    table: str
    namespace: list[str]
    name: str
    writer: str
    writer_epoch: int
    position: str | None
    password: Annotated[str | None, Field(repr=False)]
    delegation: list[str]


class StreamHeartbeat(Request):
    """What an optimizer has measured since its last heartbeat, and lines for the stream's log.

    Up to `current_age_seconds` ago the table has all records of the topic; null if that was before the attempt.
    """

    lag_rows: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None
    current_age_seconds: Annotated[float | None, Field(ge=0, le=1e12)] = None
    rows_per_second: Annotated[float | None, Field(ge=0, le=1e15)] = None
    has_progressed: bool = False
    """Whether this attempt has committed, or has found nothing to commit."""
    engine: Annotated[str | None, Field(max_length=32)] = None
    """`light` or `spark`, by which the optimizer drains now."""
    engine_reason: _Reason | None = None
    """Why it is not the light one."""
    log: _Lines = []
    memory: Memory = {}


class StreamHeartbeatAnswer(Message):
    """The new end of the lease."""

    lease_until: datetime | None


class StreamReport(Request):
    """The end of an attempt: its reason and remedy for people, and the last lines of its log."""

    outcome: StreamOutcome
    reason: _Reason | None = None
    remedy: _Reason | None = None
    log: _Lines = []
