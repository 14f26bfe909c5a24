"""The samples of one table, namespace or catalog: fine ones of the last day, then hourly, daily and weekly ones.

A series has at most MOST_SAMPLES samples, whatever happens to its table. A sample is written only when something
changed, so a gauge keeps its value until the next sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from catalog.trends.sample import NO_GAUGES, NOTHING, Flows, Gauges, Sample, add_flows

FINE, HOUR, DAY = 600, 3_600, 86_400
OLDEST = 728 * DAY
_TIERS = ((FINE, DAY), (HOUR, 7 * DAY), (DAY, 91 * DAY), (7 * DAY, OLDEST))
"""The length of the time that one sample stands for, and the age up to which samples are kept so."""
LONGEST = 7 * DAY
MOST_SAMPLES = 144 + 144 + 84 + 91 + len(_TIERS) + HOUR // FINE
"""A series is compacted once an hour, so it may have a few more than the tiers."""


def begin_of_sample(at: float) -> int:
    """The begin of the fine sample that a time belongs to, in epoch seconds."""
    return int(at) // FINE * FINE


@dataclass(frozen=True, slots=True)
class Series:
    """Samples by time, oldest first."""

    samples: tuple[Sample, ...] = ()

    @property
    def latest(self) -> Gauges | None:
        """The newest state; None before the first sample."""
        return self.samples[-1].gauges if self.samples else None

    def put_gauges(self, at: int, gauges: Gauges) -> Series:
        """Set the state from a time on; unchanged if it was so before."""
        index = self._find(at)
        if self._has(index, at):
            if self.samples[index].gauges == gauges:
                return self
            return self._with(index, self.samples[index]._replace(gauges=gauges), replaces=True)
        is_known = index > 0 and self.samples[index - 1].gauges == gauges
        return self if is_known else self._with(index, Sample(at, gauges))

    def put_flows(self, at: int, flows: Flows) -> Series:
        """Set what happened in a time: to put the same again changes nothing."""
        index = self._find(at)
        if self._has(index, at):
            if self.samples[index].flows == flows:
                return self
            return self._with(index, self.samples[index]._replace(flows=flows), replaces=True)
        if flows == NOTHING:
            return self
        before = self.samples[max(index - 1, 0)].gauges if self.samples else NO_GAUGES
        return self._with(index, Sample(at, before, flows))

    def compact(self, now: float) -> Series:
        """Make samples coarser by their age, and remove those that are too old. The newest state always stays."""
        kept: list[Sample] = []
        tier_of_last: tuple[int, int] | None = None
        for sample in self.samples:
            length = find_length(now - sample.at)
            tier = None if length is None else (length, sample.at // length)
            if kept and tier == tier_of_last:
                before = kept.pop()
                flows = sample.flows if length is None else add_flows((before.flows, sample.flows))
                kept.append(sample._replace(flows=flows))
            else:
                kept.append(sample)
            tier_of_last = tier
        return Series(tuple(kept))

    def compact_hourly(self, now: float) -> Series:
        """Compact unless the newest two samples are of one hour: then the second last change has done it."""
        hours = {sample.at // HOUR for sample in self.samples[-2:]}
        return self.compact(now) if len(hours) > 1 else self

    def as_json(self) -> list[list[Any]]:
        """The stored form: each sample as its differences from the one before, which compress well."""
        stored: list[list[Any]] = []
        for before, sample in pairwise((Sample(0, NO_GAUGES), *self.samples)):
            changes = [new - old for new, old in zip(sample.gauges, before.gauges, strict=True)]
            flows = [] if sample.flows == NOTHING else [list(sample.flows)]
            stored.append([sample.at - before.at, changes, *flows])
        return stored

    @classmethod
    def from_json(cls, stored: Iterable[list[Any]]) -> Self:
        """Read the stored form. Fields that a later version adds at the end are 0 in samples of this one."""
        samples: list[Sample] = []
        at, gauges = 0, NO_GAUGES
        for since, changes, *flows in stored:
            at += since
            gauges = Gauges(*(old + change for old, change in zip(gauges, changes, strict=False)))
            samples.append(Sample(at, gauges, Flows(*flows[0]) if flows else NOTHING))
        return cls(tuple(samples))

    def _find(self, at: int) -> int:
        """The index of the first sample that is not older; mostly the last or none."""
        index = len(self.samples)
        while index and self.samples[index - 1].at >= at:
            index -= 1
        return index

    def _has(self, index: int, at: int) -> bool:
        return index < len(self.samples) and self.samples[index].at == at

    def _with(self, index: int, sample: Sample, *, replaces: bool = False) -> Series:
        return Series((*self.samples[:index], sample, *self.samples[index + replaces :]))


def find_length(age: float) -> int | None:
    """The length of samples of this age; None for those that are too old, of which only the newest state stays."""
    return next((length for length, kept in _TIERS if age < kept), None)


def fill(series: Series, ends: Iterable[int]) -> Iterator[tuple[Gauges | None, Flows]]:
    """The state at each of these times, in order, and what happened since the time before; None before the first."""
    samples, position = series.samples, 0
    gauges: Gauges | None = None
    for number, end in enumerate(ends):
        begin = position
        while position < len(samples) and samples[position].at < end:
            position += 1
        if position > begin:
            gauges = samples[position - 1].gauges
        flows = [sample.flows for sample in samples[begin:position] if sample.flows != NOTHING] if number else []
        yield gauges, add_flows(flows)
