"""Answers about streams: what brings records into which table, where, and how far behind it is."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.answers.jobs import AttemptOut
from firn.protocol.base import Open, Out
from firn.protocol.streams import StreamKind, StreamStatus


class StreamAttemptOut(AttemptOut):
    """One attempt of an optimizer at a stream. `engine` is `light` or `spark`; for Spark, `engine_reason` says why."""

    engine: str | None
    engine_reason: str | None


class StreamOut(Out):
    """One stream. `reason` and `remedy` say why it waits for its next attempt, or why it has stopped.

    `lag_rows` counts offsets, of which some have no records; null before the first look at the topic. `lag_seconds` is
    the time since the table had all records of the topic. `allowed_actions` names the actions that are allowed now.
    """

    id: UUID
    catalog: str
    table: str
    kind: Open[StreamKind]
    status: Open[StreamStatus]
    reason: str | None
    remedy: str | None
    group: str
    topic: str | None
    connection: str | None
    position: str | None
    lag_rows: int | None
    lag_seconds: float
    rows_per_second: float | None
    measured_at: datetime | None
    last_commit_at: datetime | None
    max_lag_seconds: float | None
    attempt: int
    failures: int
    """Attempts in a row that failed."""
    retry_at: datetime | None
    """When the next attempt may begin, after failures."""
    owner: str | None
    leased_at: datetime | None
    lease_until: datetime | None
    created_at: datetime
    changed_at: datetime
    """When its status changed."""
    attempts: list[StreamAttemptOut]
    """The last ten, oldest first."""
    allowed_actions: list[str]
