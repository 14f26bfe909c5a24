"""Optimizers: processes that take jobs and run them on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import Conflict
from catalog.jobs.job import OptimizerId
from firn.protocol.leases import PROTOCOL

QUERY_SLOTS = "sql"
"""The fact of an optimizer that says how many queries it answers at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """One registered optimizer with the facts of its last heartbeat. Its jobs are not stored here."""

    id: OptimizerId
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    slots: int = 1
    """The number of jobs that it runs at once."""
    draining: bool = False
    """Whether it gets no new job."""
    stopping: bool = False
    """Whether it drains and then ends."""
    reason: str | None = None
    """The reason for draining or stopping."""
    launch: str | None = None
    """The launch that started it; None if a user did."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes of its heap and its processes in its last heartbeat; only shown to people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Spark's version, master and memory; only shown to people."""

    @property
    def query_slots(self) -> int:
        """The number of queries of people that it answers at once, as it says itself."""
        offered = self.facts.get(QUERY_SLOTS)
        return max(0, offered) if isinstance(offered, int) and not isinstance(offered, bool) else 0

    def is_silent(self, now: datetime, lease: timedelta) -> bool:
        """Whether no heartbeat came for the duration of a lease. Then it holds no lease any more."""
        return now - self.last_seen_at > lease


def check_protocol(spoken: int, version: str, own_version: str) -> None:
    """Conflict if an optimizer speaks another protocol version than this server."""
    if spoken == PROTOCOL:
        return
    raise Conflict(
        f"this optimizer (Firn {version}) speaks protocol {spoken}, the server (Firn {own_version}) speaks {PROTOCOL}",
        hint="install the same version of Firn on both sides",
    )
