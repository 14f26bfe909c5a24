"""Streams: leased work of a second class. A table may have a running job and a running stream at once.

A stream has no end. An optimizer runs it under a lease; the next one goes on from the table's position. Leases avoid
double work only: positions and epochs make streams exact (docs/protocols.md#streams).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NewType, Self
from uuid import UUID

from catalog.errors import Conflict, Invalid, LeaseLost
from catalog.jobs.job import MAX_ATTEMPTS, Attempt, LeaseToken, OptimizerId
from catalog.names import CatalogName, RelationId
from firn.protocol.streams import StreamKind, StreamStatus

StreamId = NewType("StreamId", UUID)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class StreamLease:
    """The right to run one stream, written as `stream.attempt.token`."""

    stream_id: StreamId
    attempt: int
    token: LeaseToken

    @classmethod
    def parse(cls, text: str) -> Self:
        """The lease of a text; Invalid for any other form."""
        stream_id, _, rest = text.partition(".")
        attempt, _, token = rest.partition(".")
        try:
            return cls(StreamId(UUID(stream_id)), int(attempt), LeaseToken(token))
        except ValueError as error:
            raise Invalid("invalid lease of a stream: it should read STREAM.ATTEMPT.TOKEN") from error

    def __str__(self) -> str:
        return f"{self.stream_id}.{self.attempt}.{self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream of one table."""

    id: StreamId
    catalog: CatalogName
    relation_id: RelationId
    kind: StreamKind
    status: StreamStatus
    group: str
    created_at: datetime
    changed_at: datetime
    retry_at: datetime
    """When its next attempt may begin."""
    current_at: datetime
    """Up to then the table has all records of the topic; at first the time of creation."""
    reason: str | None = None
    remedy: str | None = None
    attempt: int = 0
    failures: int = 0
    token: LeaseToken | None = None
    owner: OptimizerId | None = None
    leased_table: str | None = None
    """The name of the table in the newest lease."""
    leased_at: datetime | None = None
    lease_until: datetime | None = None
    lag_rows: int | None = None
    rows_per_second: float | None = None
    measured_at: datetime | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def allowed_actions(self) -> list[str]:
        """The actions of users that are allowed now."""
        if self.status is StreamStatus.PAUSED:
            return ["resume"]
        return ["pause", "restart"]

    def lag_seconds(self, now: datetime) -> float:
        """The time since the table had all records of the topic."""
        if self.status is StreamStatus.RUNNING and self.lag_rows == 0:
            return 0.0
        return max(0.0, (now - self.current_at).total_seconds())


def lease_stream(stream: Stream, *, owner: OptimizerId, token: LeaseToken, now: datetime, until: datetime) -> Stream:
    """The stream as its next attempt, owned by an optimizer."""
    number = stream.attempt + 1
    attempts = (*stream.attempts, Attempt(number=number, optimizer=owner, leased_at=now))[-MAX_ATTEMPTS:]
    return replace(
        _change_status(stream, StreamStatus.RUNNING, now),
        attempt=number,
        token=token,
        owner=owner,
        leased_at=now,
        lease_until=until,
        rows_per_second=None,
        attempts=attempts,
    )


def check_stream_lease(stream: Stream, lease: StreamLease) -> Stream:
    """The stream itself if the lease is its current one; LeaseLost otherwise."""
    is_current = stream.token is not None and stream.token == lease.token and stream.attempt == lease.attempt
    if not is_current or stream.status is not StreamStatus.RUNNING:
        raise LeaseLost(
            f"the lease of attempt {lease.attempt} on stream {stream.id} has ended: "
            f"the stream is {stream.status}, attempt {stream.attempt}",
            hint="stop working on this stream: the next attempt goes on from the table's position",
        )
    return stream


def note_engine(stream: Stream, engine: str, reason: str | None) -> Stream:
    """The stream whose current attempt runs by this engine."""
    if not stream.attempts:
        return stream
    current = replace(stream.attempts[-1], engine=engine, engine_reason=reason)
    return replace(stream, attempts=(*stream.attempts[:-1], current))


def hand_back_stream(stream: Stream, outcome: str, now: datetime) -> Stream:
    """The stream after an attempt that ended without a failure; the next one may begin at once."""
    ended = _end_attempt(stream, outcome, now)
    return replace(_change_status(ended, StreamStatus.WAITING, now), retry_at=now)


def fail_stream(stream: Stream, reason: str, remedy: str | None, now: datetime) -> Stream:
    """The stream after a failed attempt: the next one begins after a pause, longer after each failure in a row."""
    failures = stream.failures + 1
    ended = _end_attempt(stream, reason, now)
    waiting = _change_status(ended, StreamStatus.WAITING, now)
    retry_at = now + _find_pause(failures)
    return replace(waiting, failures=failures, retry_at=retry_at, reason=reason, remedy=remedy)


def stop_stream(stream: Stream, reason: str, remedy: str | None, now: datetime) -> Stream:
    """The stream that goes on only after a user has acted."""
    ended = _end_attempt(stream, reason, now)
    return replace(_change_status(ended, StreamStatus.STOPPED, now), reason=reason, remedy=remedy)


def pause_stream(stream: Stream, now: datetime) -> Stream:
    """The stream as paused by a user; a repeated request changes nothing."""
    if stream.status is StreamStatus.PAUSED:
        return stream
    return replace(_change_status(_end_attempt(stream, "paused", now), StreamStatus.PAUSED, now), failures=0)


def resume_stream(stream: Stream, now: datetime) -> Stream:
    """The stream as resumed by a user; Conflict for a stopped one."""
    if stream.status is StreamStatus.STOPPED:
        raise Conflict(
            f"the stream has stopped: {stream.reason}", hint=f"{stream.remedy or 'remove the cause'}; then restart it"
        )
    if stream.status is not StreamStatus.PAUSED:
        return stream
    return _start_anew(stream, now)


def restart_stream(stream: Stream, now: datetime) -> Stream:
    """The stream with a new first attempt, whether it waits, runs or has stopped; Conflict for a paused one."""
    if stream.status is StreamStatus.PAUSED:
        raise Conflict("the stream is paused", hint="resume it")
    return _start_anew(_end_attempt(stream, "restarted", now), now)


def end_silent_stream(stream: Stream, now: datetime) -> Stream:
    """The stream after its owner missed its heartbeats; unchanged while the lease lasts."""
    if stream.status is not StreamStatus.RUNNING or stream.lease_until is None or now < stream.lease_until:
        return stream
    return fail_stream(stream, f"{stream.owner} fell silent", None, now)


def limit_waits(stream: Stream, now: datetime, lasts: timedelta) -> Stream:
    """Limit lease and pause to those of a stream that began them now.

    After the clock is set back, a lease would outlive a dead optimizer, and a pause its reason, until it catches up.
    """
    lease_until = None if stream.lease_until is None else min(stream.lease_until, now + lasts)
    return replace(stream, lease_until=lease_until, retry_at=min(stream.retry_at, now + _find_pause(stream.failures)))


def _find_pause(failures: int) -> timedelta:
    """The pause after so many failures in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10)) if failures else timedelta()


def _start_anew(stream: Stream, now: datetime) -> Stream:
    waiting = _change_status(stream, StreamStatus.WAITING, now)
    return replace(waiting, failures=0, retry_at=now, reason=None, remedy=None)


def _change_status(stream: Stream, status: StreamStatus, now: datetime) -> Stream:
    return replace(stream, status=status, changed_at=stream.changed_at if stream.status is status else now)


def _end_attempt(stream: Stream, outcome: str, now: datetime) -> Stream:
    attempts = stream.attempts
    if stream.token is not None and attempts:
        attempts = (*attempts[:-1], replace(attempts[-1], ended_at=now, outcome=outcome))
    return replace(
        stream, token=None, owner=None, leased_at=None, lease_until=None, rows_per_second=None, attempts=attempts
    )
