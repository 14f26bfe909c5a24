"""One sample: the state of a table, namespace or catalog at a time, and what happened since the sample before.

These are tuples: a server that samples thousands of tables reads and writes hundreds of samples of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import Any, NamedTuple

HIGHEST = 2**62
"""Reports of engines and optimizers hold any numbers; sums of these still fit into the database."""


def clamp(value: Any) -> int:
    """A whole number that the database can hold and add; 0 for anything that is no number."""
    if not isinstance(value, int | float) or isnan(value):
        return 0
    return int(min(max(value, -HIGHEST), HIGHEST))


class Gauges(NamedTuple):
    """The state at a time. The fields of a namespace are sums over its tables, but for `unpublished_since`."""

    tables: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    small_files: int = 0
    health_sum: int = 0
    """The average health is this divided by `tables`."""
    pending_rows: int = 0
    unpublished_since: int = 0
    """When the oldest commit was made that Hive lacks, in epoch seconds; 0 if Hive lacks none."""


class Flows(NamedTuple):
    """What happened during a time."""

    jobs: int = 0
    failed_jobs: int = 0
    job_ms: int = 0
    files_removed: int = 0
    """By how much jobs reduced the number of files that a full scan reads, delete files included."""
    bytes_removed: int = 0
    """By how much jobs reduced the bytes that a full scan reads."""
    bytes_freed: int = 0
    """Bytes that jobs deleted from storage."""
    scans: int = 0
    planning_ms: int = 0
    """The planning time of these scans together."""
    openings_saved: int = 0
    """Files that these scans did not have to open, because jobs had removed them: see catalog.trends.savings."""


NO_GAUGES, NOTHING = Gauges(), Flows()


class Sample(NamedTuple):
    """A sample; `at` is the begin of its time, in epoch seconds."""

    at: int
    gauges: Gauges
    flows: Flows = NOTHING


def add_gauges(parts: Iterable[Gauges]) -> Gauges:
    """All together."""
    sums = NO_GAUGES
    for part in parts:
        added = Gauges(*(clamp(mine + theirs) for mine, theirs in zip(sums, part, strict=True)))
        sums = added._replace(unpublished_since=_earlier(sums.unpublished_since, part.unpublished_since))
    return sums


def add_flows(parts: Iterable[Flows]) -> Flows:
    """All together."""
    sums = NOTHING
    for part in parts:
        if part is not NOTHING:
            sums = Flows(*(clamp(mine + theirs) for mine, theirs in zip(sums, part, strict=True)))
    return sums


def _earlier(first: int, second: int) -> int:
    return min(first, second) if first and second else first or second
