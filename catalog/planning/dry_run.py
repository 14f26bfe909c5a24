"""What a dry run says: what a job would do, to what, and what would be gained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_PARTITIONS = 20
"""Partitions that are told of one by one, those with the most bytes first."""

NOTHING_TO_DO = "have nothing to do"
"""What a dry run says of a job that would change nothing."""


@dataclass(frozen=True, slots=True)
class AffectedItems:
    """Things of one kind that a job would touch, or leave; bytes where they have any."""

    items: str
    count: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunResult:
    """What one job would do now."""

    action: str
    """Follows on `would`: `expire 3 snapshots`."""
    affected: Sequence[AffectedItems] = ()
    gain: Mapping[str, int] = field(default_factory=dict)
    """What a full scan would have to read, before and after."""
    exact: bool = True
    """Whether the numbers are counted; else they are estimates, and a note says of what."""
    notes: Sequence[str] = ()
    is_empty: bool = False
    """Whether it is certain that the job would change nothing."""


def list_largest_partitions(by_partition: Mapping[str, tuple[int, int]]) -> list[AffectedItems]:
    """The partitions with the most bytes, as counts and bytes; unpartitioned tables have none to tell of."""
    named = [(name, count, size) for name, (count, size) in by_partition.items() if name]
    named.sort(key=lambda one: (-one[2], one[0]))
    return [AffectedItems(name, count, size) for name, count, size in named[:MAX_PARTITIONS]]
