"""When readers have seen which records, and how old the records were then."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.stream.records import Totals

Integers = npt.NDArray[np.int64]
Row = tuple[int, int]
"""Quantity and amount of a key."""


def now_ms() -> int:
    """The clock by which records tell when they were made."""
    return time.time_ns() // 1_000_000


def sum_up(rows: Mapping[int, Row]) -> Totals:
    """What a reader of these rows must see."""
    return Totals(len(rows), sum(qty for qty, _ in rows.values()), sum(amount for _, amount in rows.values()))


@dataclass
class Arrivals:
    """Of a stream that hands on each record: the rows that its records give, and the age of each when it came."""

    rows: dict[int, Row]
    """At first those of the snapshot that the stream follows."""
    records: int = 0
    since: int = 0
    """Records that were made before do not count: the stream was still warming up."""
    _ages: list[Integers] = field(default_factory=list)

    def take(self, at: int, keys: list[int], qtys: list[int], amounts: list[int], times: Integers) -> None:
        """Records that came at a time, in the order of the topic."""
        self.records += len(keys)
        self.rows.update(zip(keys, zip(qtys, amounts, strict=True), strict=True))
        self._ages.append(at - times[times >= self.since])

    def ages(self) -> Integers:
        """Of all records, in milliseconds."""
        return np.concatenate([*self._ages, np.array([], np.int64)])


@dataclass
class Looks:
    """Of a reader that asks again and again: when it had an answer, and the newest record in it, for each partition."""

    ended: list[int] = field(default_factory=list)
    newest: list[Sequence[int]] = field(default_factory=list)

    def note(self, newest: Sequence[int]) -> None:
        """An answer that has just come."""
        self.ended.append(now_ms())
        self.newest.append(newest)

    def ages(self, times: Sequence[Integers], since: int) -> Integers:
        """How old records were when the first answer with them came, from when the records of each partition were made.

        Records lie in the order of their times, and so do the answers. AssertionError if no answer had a record.
        """
        ended, ages = np.array(self.ended, np.int64), [np.array([], np.int64)]
        for partition, made in enumerate(times):
            newest = np.maximum.accumulate([answer[partition] for answer in self.newest])
            first = np.searchsorted(newest, made)
            if (first == len(ended)).any():
                raise AssertionError(f"{(first == len(ended)).sum()} records of partition {partition} were never seen")
            counted = made >= since
            ages.append(ended[first[counted]] - made[counted])
        return np.concatenate(ages)


def describe_ages(ages: Integers) -> dict[str, float]:
    """Quantiles over records, in milliseconds; ValueError without records."""
    if not len(ages):
        raise ValueError("no record was made after the warm-up")
    p50, p95, p99 = np.quantile(ages, [0.5, 0.95, 0.99])
    return {"p50": round(p50), "p95": round(p95), "p99": round(p99), "most": int(ages.max())}
