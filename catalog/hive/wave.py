"""Waves: upgrades or checks of many Hive tables that somebody started at once and follows as one piece of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from catalog.jobs.operation import BatchId
from catalog.names import CatalogName
from firn.protocol.operations import OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """One wave. Its operations are the batch of this id."""

    batch: BatchId
    catalog: CatalogName
    name: str
    kind: OperationKind
    """Upgrades, or checks for a dry run."""
    selection: Mapping[str, Any]
    """The filter or the names that chose the tables, for people."""
    tables: int
    created_at: datetime
    stop_after: int | None = None
    """The wave stops when so many of its tables have failed; None if failures stop nothing."""
    failures_allowed: int | None = None
    """The number of failures at which it stops. A resume raises it by `stop_after`."""
    stopped: str | None = None
    """Why the wave stopped, for people; None while it runs, and after a resume."""

    def after_failures(self, failures: int, target: str) -> Wave | None:
        """The stopped wave if so many failures stop it; None if it goes on. `target` failed last."""
        if self.failures_allowed is None or failures < self.failures_allowed or self.stopped is not None:
            return None
        failed_tables = "1 table has" if failures == 1 else f"{failures:,} tables have"
        return replace(self, stopped=f"{failed_tables} failed, the last one was {target}")

    def resumed(self, failures: int) -> Wave:
        """The wave that goes on: it stops again after `stop_after` further failures."""
        allowed = None if self.stop_after is None else failures + self.stop_after
        return replace(self, failures_allowed=allowed, stopped=None)


def estimate_remaining(unfinished: int, ended: Sequence[datetime]) -> timedelta | None:
    """Estimate the remaining time from the times at which the last operations ended; None if they say too little."""
    if not unfinished:
        return timedelta(0)
    return (max(ended) - min(ended)) / (len(ended) - 1) * unfinished if tells_pace(ended) else None


def tells_pace(ended: Sequence[datetime]) -> bool:
    """Whether the times at which operations ended say how long one takes."""
    return len(ended) >= _FEWEST and max(ended) > min(ended)


_FEWEST = 3
