"""A group of optimizers at work, simulated: jobs come and are taken by catalog.jobs.scheduling, and some die."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, count
from uuid import UUID

from catalog.jobs.job import JobKind
from catalog.jobs.scheduling import (
    SlotRun,
    SlotUsage,
    compute_deadline,
    is_long,
    limit_long_jobs,
    measure_usage,
    should_take_requested_first,
)
from catalog.maintenance import kind_of
from catalog.names import CatalogName, RelationId
from tests.factories import NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job that comes to be planned. All times are seconds from the beginning."""

    at: float
    table: int
    seconds: float
    kind: JobKind = JobKind.REWRITE
    catalog: str = "lake"
    priority: str = "normal"
    is_requested: bool = False

    @property
    def is_long(self) -> bool:
        return is_long(self.seconds)


@dataclass(slots=True, kw_only=True)
class Ended:
    """What became of a job: when it was planned, when it first began, and when it ended at last."""

    job: PlannedJob
    planned: float
    deadline: float
    began: float = -1.0
    ended: float = -1.0

    @property
    def waited(self) -> float:
        return self.began - self.planned


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Slots, and what holds for them; `dies` is when an optimizer dies: its job is free again after `silence`."""

    slots: int
    reserved: int = 1
    table_quota: float = 1.0
    catalog_quota: float = 1.0
    dies: Sequence[float] = ()
    silence: float = 60.0


def worked(comes: Iterable[PlannedJob], rules: Rules) -> list[Ended]:
    """All jobs once everything has ended. What comes for a table that has a job is not planned."""
    return _Group(rules).work(comes)


@dataclass
class _Group:
    rules: Rules
    planned: list[Ended] = field(default_factory=list)
    _events: list[tuple[float, int, PlannedJob | Ended | int | None]] = field(default_factory=list)
    _waiting: defaultdict[tuple[bool, bool], list[tuple[float, int, Ended]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By whether they were asked for, and whether they are long."""
    _last_was_asked: bool = False
    _running: dict[int, tuple[float, Ended]] = field(default_factory=dict)
    _active: set[int] = field(default_factory=set)
    _history: list[SlotRun] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def work(self, comes: Iterable[PlannedJob]) -> list[Ended]:
        for job in comes:
            self._later(job.at, job)
        for at in self.rules.dies:
            self._later(at, None)
        while self._events:
            now, _, event = heapq.heappop(self._events)
            if isinstance(event, PlannedJob):
                self._plan(event, now)
            elif isinstance(event, Ended):
                self._wait(event)
            elif event is None:
                self._die(now)
            else:
                self._end(event, now)
            while len(self._running) < self.rules.slots and self._begin(now):
                pass
        return self.planned

    def _later(self, at: float, event: PlannedJob | Ended | int | None) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), event))

    def _plan(self, job: PlannedJob, now: float) -> None:
        if job.table in self._active:
            return
        self._active.add(job.table)
        due = compute_deadline(
            kind_of(job.kind).max_wait, job.priority, _at(now), requested=job.is_requested, penalty=self._back(job, now)
        )
        ended_job = Ended(job=job, planned=now, deadline=(due - NOW).total_seconds())
        self.planned.append(ended_job)
        self._wait(ended_job)

    def _wait(self, ended_job: Ended) -> None:
        queue = self._waiting[ended_job.job.is_requested, ended_job.job.is_long]
        heapq.heappush(queue, (ended_job.deadline, next(self._numbers), ended_job))

    def _begin(self, now: float) -> bool:
        """Give a slot to the job whose deadline is the earliest of those that may have one and whose turn it is."""
        held = sum(ended_job.job.is_long for _, ended_job in self._running.values())
        kinds = [False, True] if held < limit_long_jobs(self.rules.slots, self.rules.reserved) else [False]
        first = should_take_requested_first(last_was_asked=self._last_was_asked)
        of_each = ([self._waiting[requested, kind] for kind in kinds] for requested in (first, not first))
        queue = next((min(filter(None, queues)) for queues in of_each if any(queues)), None)
        if queue is None:
            return False
        ended_job, number = heapq.heappop(queue)[2], next(self._numbers)
        self._last_was_asked = ended_job.job.is_requested
        ended_job.began = now if ended_job.began < 0 else ended_job.began
        self._running[number] = (now, ended_job)
        self._later(now + ended_job.job.seconds, number)
        return True

    def _end(self, number: int, now: float) -> None:
        if number in self._running:  # or its optimizer has died
            ended_job = self._leave(number, now)
            ended_job.ended = now
            self._active.discard(ended_job.job.table)

    def _die(self, now: float) -> None:
        if self._running:
            self._later(now + self.rules.silence, self._leave(min(self._running), now))

    def _leave(self, number: int, now: float) -> Ended:
        since, ended_job = self._running.pop(number)
        self._history.append(_ran(ended_job, since, now))
        return ended_job

    def _back(self, job: PlannedJob, now: float) -> float:
        if self.rules.table_quota == self.rules.catalog_quota == 1.0:
            return 0.0
        since = _at(now) - timedelta(hours=1)
        self._history = [ended_job for ended_job in self._history if ended_job.until is None or ended_job.until > since]
        running = [_ran(ended_job, begun, None) for begun, ended_job in self._running.values()]
        used = measure_usage([*self._history, *running], self.rules.slots, _at(now))
        for _, _, ended_job in chain(*self._waiting.values()):
            used.add(CatalogName(ended_job.job.catalog), _id(ended_job.job.table), ended_job.job.seconds)
        return self._quotas(used, job)

    def _quotas(self, used: SlotUsage, job: PlannedJob) -> float:
        return used.penalty(
            CatalogName(job.catalog),
            _id(job.table),
            table_quota=self.rules.table_quota,
            catalog_quota=self.rules.catalog_quota,
        )


def _ran(ended_job: Ended, since: float, until: float | None) -> SlotRun:
    return SlotRun(
        catalog=CatalogName(ended_job.job.catalog),
        table=_id(ended_job.job.table),
        since=_at(since),
        until=None if until is None else _at(until),
    )


def _at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def _id(table: int) -> RelationId:
    return RelationId(UUID(int=table))
