"""Scheduling: each job gets a deadline when it is planned, and the queue takes the earliest deadline first.

A deadline never moves, and none lies further ahead than `longest_wait`. Jobs with later deadlines come later, so no
job starves under any mix. With more work than time, all jobs wait longer alike.

A requested job goes before planned ones, but at most at every second lease. So users see their jobs start, and endless
requests at most halve the speed of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.names import CatalogName, RelationId

PRIORITIES: Mapping[str, float] = {"high": 0.25, "normal": 1.0, "low": 4.0}
MAX_PENALTY = 3.0
"""The largest penalty for used slots, in longest waits of the job's kind."""

LONG_SECONDS = 300.0
LONG_BYTES = 20 * 2**30
USAGE_WINDOW = timedelta(hours=1)
"""Usage within this time counts against a quota."""


def compute_deadline(
    max_wait: timedelta, priority: str, now: datetime, *, requested: bool = False, penalty: float = 0.0
) -> datetime:
    """The deadline of a job whose kind may wait for `max_wait`; now for a requested job."""
    if requested:
        return now
    return now + max_wait * PRIORITIES[priority] * (1 + min(max(penalty, 0.0), MAX_PENALTY))


def longest_wait(max_waits: Iterable[timedelta]) -> timedelta:
    """The longest time that a deadline lies ahead, over kinds with these waits."""
    return max(max_waits) * max(PRIORITIES.values()) * (1 + MAX_PENALTY)


def should_take_requested_first(*, last_was_asked: bool) -> bool:
    """Whether a requested job is next. Requested and planned jobs alternate."""
    return not last_was_asked


def is_long(seconds: float, size: int = 0) -> bool:
    """Whether a job may hold a slot so long that short jobs must not wait for it."""
    return seconds > LONG_SECONDS or size > LONG_BYTES


def limit_long_jobs(slots: int, reserved: int) -> int:
    """The number of a group's slots that long jobs may hold at once; at least one, or they would never run."""
    return max(slots - reserved, 1)


@dataclass
class SlotUsage:
    """Slot-seconds of one group: used within the last hour, in use, and predicted for queued jobs."""

    slots: int
    by_catalog: dict[CatalogName, float] = field(default_factory=dict)
    by_table: dict[RelationId, float] = field(default_factory=dict)

    def add(self, catalog: CatalogName, table: RelationId, seconds: float) -> None:
        """Charge a job to its table and catalog."""
        self.by_catalog[catalog] = self.by_catalog.get(catalog, 0.0) + seconds
        self.by_table[table] = self.by_table.get(table, 0.0) + seconds

    def penalty(self, catalog: CatalogName, table: RelationId, *, table_quota: float, catalog_quota: float) -> float:
        """The penalty of a new job in longest waits of its kind: 0 up to the quota, then growing.

        Queued jobs count before they run, so a catalog that floods the queue gets a penalty at once.
        """
        capacity = max(self.slots, 1) * USAGE_WINDOW.total_seconds()
        shares = [(self.by_table.get(table, 0.0) / capacity, table_quota)]
        if catalog_quota < 1:
            shares.append((self.by_catalog.get(catalog, 0.0) / capacity, catalog_quota))
        return min(max(_measure_excess(share, quota) for share, quota in shares), MAX_PENALTY)


def _measure_excess(share: float, quota: float) -> float:
    if share <= quota:
        return 0.0
    return share / quota - 1 if quota > 0 else MAX_PENALTY


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRun:
    """The time in which a job held a slot; `until` is None while it does."""

    catalog: CatalogName
    table: RelationId
    since: datetime
    until: datetime | None = None


def measure_usage(runs: Iterable[SlotRun], slots: int, now: datetime) -> SlotUsage:
    """The usage of each catalog and table within the last hour."""
    usage, begin = SlotUsage(slots), now - USAGE_WINDOW
    for run in runs:
        seconds = (min(run.until or now, now) - max(run.since, begin)).total_seconds()
        usage.add(run.catalog, run.table, max(seconds, 0.0))
    return usage
