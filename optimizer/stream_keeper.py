"""Keeps the lease of a stream: heartbeats with what the drain has measured, from a thread of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import httpx

from firn.drains.engine import Engine
from firn.protocol.streams import LONGEST_REASON, MOST_LINES, StreamHeartbeat, StreamLease
from optimizer.client import ServerApi
from optimizer.errors import JobError, LeaseLost
from optimizer.kept_lease import INTERRUPT_SECONDS, KeptLease

log = logging.getLogger(__name__)

RATE_SECONDS = 60.0
"""The time over which the rate is counted."""


class StreamEnded(JobError):
    """The attempt has to end: its lease is over, or this process stops."""


@dataclass
class Measures:
    """What a drain has seen and done in this attempt. Times are those of the monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    lag_rows: int | None = None
    current_since: float | None = None
    """Up to then the table has all records of the topic."""
    has_progressed: bool = False
    _commits: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, lag_rows: int, at: float) -> None:
        """Note the lag at a look at the topic."""
        self.lag_rows = lag_rows
        if lag_rows == 0:
            self.current_since, self.has_progressed = at, True

    def commit(self, rows: int, left: int, looked_at: float) -> None:
        """Note a commit of so many rows, and how many of the records seen at the look it has left."""
        self._commits.append((time.monotonic(), rows))
        self.lag_rows, self.has_progressed = left, True
        if left == 0:
            self.current_since = looked_at

    def count_rate(self, now: float) -> float:
        """The rows per second over the last minute, or since the attempt began."""
        while self._commits and self._commits[0][0] < now - RATE_SECONDS:
            self._commits.popleft()
        return sum(rows for _, rows in self._commits) / max(1.0, min(RATE_SECONDS, now - self.began))


class StreamKeeper(KeptLease):
    """The lease of a stream. Its work is interrupted when it is lost, or when the process is told to stop."""

    def __init__(self, api: ServerApi, lease: StreamLease, *, stopping: threading.Event) -> None:
        seconds = lease.heartbeat_seconds
        # People see soon that it runs.
        super().__init__(
            lease.stream_id, stopping, heartbeat_seconds=seconds, first_heartbeat_seconds=min(1.0, seconds)
        )
        self.lease = lease
        self.measures = Measures()
        self._api = api
        self._kept_at = time.monotonic()
        self._engine: Engine | None = None
        self._engine_reason: str | None = None

    @property
    def is_to_end(self) -> bool:
        """Whether the attempt has to end."""
        return self.is_lost or self._stopping.is_set()

    def check(self) -> None:
        """Raise StreamEnded if the attempt has to end."""
        if self.is_to_end:
            raise StreamEnded(self._lost or "the optimizer stops")

    def wait_until(self, moment: float) -> None:
        """Wait until a moment of the monotonic clock; StreamEnded if the attempt has to end before."""
        while (left := moment - time.monotonic()) > 0:
            self.check()
            self._stopping.wait(min(left, INTERRUPT_SECONDS))
        self.check()

    def say(self, line: str) -> None:
        """Add a line to the stream's log; it is sent with the next heartbeat."""
        hidden = self.hide(line)
        log.info(hidden, extra={"stream": self.lease.stream_id})
        self._add_line(hidden[:LONGEST_REASON])

    def tell_engine(self, engine: Engine, reason: str | None) -> None:
        """Note the engine that drains from now on, and why it is not the light one."""
        text = None if reason is None else self.hide(reason)[:LONGEST_REASON]
        if (engine, text) == (self._engine, self._engine_reason):
            return
        self._engine, self._engine_reason = engine, text
        self.say("drains without Spark" if text is None else f"drains in Spark: {text}")

    def hide(self, text: str) -> str:
        """The text without the password of the lease."""
        return text.replace(self.lease.password, "***") if self.lease.password else text

    def _try_to_beat(self) -> None:
        try:
            self._beat()
            self._kept_at = time.monotonic()
        except LeaseLost as error:
            self._lost = str(error)
        except (JobError, httpx.HTTPError) as error:
            log.warning("beat failed: %s", error)
            if time.monotonic() - self._kept_at > self.lease.lease_seconds:
                self._lost = f"no heartbeat got through for {self.lease.lease_seconds:g} s: {error}"

    def _beat(self) -> None:
        now, seen, lines = time.monotonic(), self.measures, self.take_lines(MOST_LINES)
        heartbeat = StreamHeartbeat(
            lag_rows=seen.lag_rows,
            current_age_seconds=None if seen.current_since is None else max(0.0, now - seen.current_since),
            rows_per_second=seen.count_rate(now),
            has_progressed=seen.has_progressed,
            engine=None if self._engine is None else str(self._engine),
            engine_reason=self._engine_reason,
            log=lines,
            memory=self.memory(),
        )
        try:
            self._api.beat_stream(self.lease, heartbeat)
        except (JobError, httpx.HTTPError):
            self._put_back(lines)
            raise
