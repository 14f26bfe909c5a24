"""Optimizers: processes that take jobs and run them on Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalog.job import JobId, OptimizerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """One registered optimizer and what it said when it was last heard."""

    id: OptimizerId
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    job_id: JobId | None = None
    draining: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    """Spark's version, master, memory: shown to people, decided upon by nobody."""
