"""The result of a dry run: the job's action, the affected items, and the gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_PARTITIONS = 20
"""The number of partitions that a result lists, those with the most bytes first."""

NOTHING_TO_DO = "have nothing to do"
"""The action of a job that would change nothing."""


@dataclass(frozen=True, slots=True)
class AffectedItems:
    """Items of one kind that a job would change or leave; `bytes` is None for items without a size."""

    items: str
    count: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunResult:
    """The effect of one job if it ran now."""

    action: str
    """Completes a sentence after `would`: `expire 3 snapshots`."""
    affected: Sequence[AffectedItems] = ()
    gain: Mapping[str, int] = field(default_factory=dict)
    """The quantities that a full scan reads, before and after."""
    exact: bool = True
    """Whether the numbers are counted. Otherwise they are estimates, and a note says of what."""
    notes: Sequence[str] = ()
    is_empty: bool = False
    """Whether it is certain that the job would change nothing."""


def list_largest_partitions(by_partition: Mapping[str, tuple[int, int]]) -> list[AffectedItems]:
    """The partitions with the most bytes; none for an unpartitioned table."""
    named = [(name, count, size) for name, (count, size) in by_partition.items() if name]
    named.sort(key=lambda partition: (-partition[2], partition[0]))
    return [AffectedItems(name, count, size) for name, count, size in named[:MAX_PARTITIONS]]
