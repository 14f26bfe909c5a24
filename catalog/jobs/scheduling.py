"""Whose turn it is: every job gets a deadline when it is planned, and the earliest deadline is taken first.

A deadline never moves once it is set, and none lies further ahead than `longest_wait`: whatever comes later than
that comes behind. So nothing starves, under any mix; when there is more work than time, all wait longer alike.

What somebody has asked for goes before all that was planned, at every second lease at most: people see it begin, and
who asks without end halves the speed of the rest and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.names import CatalogName, RelationId

PRIORITIES: Mapping[str, float] = {"high": 0.25, "normal": 1.0, "low": 4.0}
MAX_PENALTY = 3.0
"""How many times its kind's longest wait a job stands back, at most, for what its table or catalog has used."""

LONG_SECONDS = 300.0
LONG_BYTES = 20 * 2**30
USAGE_WINDOW = timedelta(hours=1)
"""What was used within this time counts against a quota."""


def compute_deadline(
    max_wait: timedelta, priority: str, now: datetime, *, asked: bool = False, penalty: float = 0.0
) -> datetime:
    """Until when a job should have begun whose kind may wait for `max_wait`: at once if somebody has asked for it."""
    if asked:
        return now
    return now + max_wait * PRIORITIES[priority] * (1 + min(max(penalty, 0.0), MAX_PENALTY))


def longest_wait(max_waits: Iterable[timedelta]) -> timedelta:
    """The furthest that a deadline lies ahead, over kinds that may wait for so long."""
    return max(max_waits) * max(PRIORITIES.values()) * (1 + MAX_PENALTY)


def should_take_requested_first(*, last_was_asked: bool) -> bool:
    """Whether a job that was asked for is taken before those that were planned, after what was taken last."""
    return not last_was_asked


def is_long(seconds: float, size: int = 0) -> bool:
    """Whether a job may hold a slot for so long that short ones must not wait for it."""
    return seconds > LONG_SECONDS or size > LONG_BYTES


def limit_long_jobs(slots: int, reserved: int) -> int:
    """How many of a group's slots long jobs may hold at once: one in any case, or they would never run."""
    return max(slots - reserved, 1)


@dataclass
class SlotUsage:
    """Slot-seconds of one group: used within the last hour, being used, and asked for by what waits already."""

    slots: int
    by_catalog: dict[CatalogName, float] = field(default_factory=dict)
    by_table: dict[RelationId, float] = field(default_factory=dict)

    def add(self, catalog: CatalogName, table: RelationId, seconds: float) -> None:
        """Charge a job to its table and catalog."""
        self.by_catalog[catalog] = self.by_catalog.get(catalog, 0.0) + seconds
        self.by_table[table] = self.by_table.get(table, 0.0) + seconds

    def penalty(self, catalog: CatalogName, table: RelationId, *, table_quota: float, catalog_quota: float) -> float:
        """How far a new job stands back, in longest waits of its kind: not at all up to the quota, then ever further.

        A catalog that floods the queue stands back by what it has queued, before any of it has run.
        """
        capacity = max(self.slots, 1) * USAGE_WINDOW.total_seconds()
        shares = [(self.by_table.get(table, 0.0) / capacity, table_quota)]
        if catalog_quota < 1:
            shares.append((self.by_catalog.get(catalog, 0.0) / capacity, catalog_quota))
        return min(max(_beyond(share, quota) for share, quota in shares), MAX_PENALTY)


def _beyond(share: float, quota: float) -> float:
    if share <= quota:
        return 0.0
    return share / quota - 1 if quota > 0 else MAX_PENALTY


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRun:
    """When a job had its slot; `until` None while it has it."""

    catalog: CatalogName
    table: RelationId
    since: datetime
    until: datetime | None = None


def measure_usage(ran: Iterable[SlotRun], slots: int, now: datetime) -> SlotUsage:
    """What of the last hour each catalog and table has used."""
    used, begin = SlotUsage(slots), now - USAGE_WINDOW
    for one in ran:
        seconds = (min(one.until or now, now) - max(one.since, begin)).total_seconds()
        used.add(one.catalog, one.table, max(seconds, 0.0))
    return used
