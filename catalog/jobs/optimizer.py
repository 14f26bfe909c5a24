"""Optimizers: processes that take jobs and run them on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import Conflict
from catalog.jobs.job import OptimizerId
from firn.protocol.leases import PROTOCOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """One registered optimizer and what it said when it was last heard. What it holds, the jobs know."""

    id: OptimizerId
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    slots: int = 1
    """Jobs that it runs side by side."""
    draining: bool = False
    """It is given no new job."""
    stopping: bool = False
    """It drains, and ends when it holds no job any more."""
    reason: str | None = None
    """The reason given for either."""
    launch: str | None = None
    """The launch that it came out of; None when it was started by hand."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes of its heap and its processes as it last told them: for people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Spark's version, master, memory: shown to people, decided upon by nobody."""

    def is_silent(self, now: datetime, lease: timedelta) -> bool:
        """Whether nothing was heard of it for as long as a lease lasts: it holds none any more."""
        return now - self.last_seen_at > lease


def check_protocol(spoken: int, version: str, own_version: str) -> None:
    """Conflict when an optimizer talks in another way than this server does."""
    if spoken == PROTOCOL:
        return
    raise Conflict(
        f"this optimizer (Firn {version}) speaks protocol {spoken}, the server (Firn {own_version}) speaks {PROTOCOL}",
        hint="install the same version of Firn on both sides",
    )
