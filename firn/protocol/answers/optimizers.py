"""Answers about optimizers."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from firn.protocol.base import Out


class OptimizerOut(Out):
    """A registered optimizer, its jobs, the numbers of its streams and queries, and whether it drains or stops."""

    id: str
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    slots: int
    jobs: list[UUID]
    streams: int
    queries: int
    silent: bool
    draining: bool
    stopping: bool
    reason: str | None
    launch: str | None
    memory: dict[str, int]
    facts: dict[str, Any]


class RegisteredOut(OptimizerOut):
    """The registered optimizer, with the times of leases and heartbeats."""

    lease_seconds: float
    heartbeat_seconds: float
