"""All background work at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.jobs.job import Job
from catalog.jobs.optimizer_group import Group, GroupName
from catalog.jobs.queue import FinishedInHour, FinishedJobs, QueuedJobs
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from catalog.tables.table_status import TableStatus
from server.service.jobs.job_queue import count_slots

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS = 24
LISTED = 20
"""Tables and jobs that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A group with the slots of its living optimizers, and how many of them have a job."""

    group: Group
    slots: int
    leased: int


GRADES: Mapping[str, int] = {"good": 80, "fair": 50, "poor": 0}
"""The least health of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What waits, what runs, what was done, and what it is all about."""

    at: datetime
    due_tables: int
    """Tables and stores that the planner has still to look at."""
    waiting: Sequence[QueuedJobs]
    groups: Sequence[Load]
    last_hour: Sequence[FinishedJobs]
    last_day: Sequence[FinishedJobs]
    hours: Sequence[FinishedInHour]
    """The last day by whole hours, oldest first; the last of them is not over."""
    overdue: Sequence[Job]
    worst: Sequence[tuple[Relation, TableStatus]]
    by_health: Mapping[str, int]
    """Tables by how healthy they are: see GRADES."""


@dataclass(frozen=True)
class MaintenanceOverview:
    """The background work of one server's database."""

    database: Database
    lease: timedelta

    def load(self) -> Overview:
        """By indexes alone, however many tables there are."""
        with self.database.reading() as uow:
            now = uow.now()
            waiting = uow.queue.waiting()
            return Overview(
                at=now,
                due_tables=uow.queue.count_due(now),
                waiting=waiting,
                groups=self._groups(uow, waiting, now),
                last_hour=uow.queue.done(now - HOUR),
                last_day=uow.queue.done(now - DAY),
                hours=_hours(uow, now),
                overdue=uow.queue.overdue(now, limit=LISTED),
                worst=uow.table_statuses.worst(limit=LISTED),
                by_health=uow.table_statuses.by_health(GRADES),
            )

    def _groups(self, uow: UnitOfWork, waiting: Sequence[QueuedJobs], now: datetime) -> list[Load]:
        """Those that were made, and those that optimizers, running or waiting jobs name."""
        leased = uow.queue.leased()
        known = {group.name: group for group in uow.groups.list()}
        named = {GroupName(optimizer.group) for optimizer in uow.optimizers.list()}
        named |= {queued.group for queued in waiting} | {group for group, _ in leased}
        return [
            Load(
                group=known.get(name, Group(name=name)),
                slots=count_slots(uow, name, now, self.lease),
                leased=sum(jobs for (group, _), jobs in leased.items() if group == name),
            )
            for name in sorted({*known, *named})
        ]


def _hours(uow: UnitOfWork, now: datetime) -> list[FinishedInHour]:
    """Each hour of the last day, also where nothing ended."""
    last = now.replace(minute=0, second=0, microsecond=0)
    begins = [last - HOUR * back for back in range(HOURS - 1, -1, -1)]
    found = {hour.begins: hour for hour in uow.queue.done_by_hour(begins[0])}
    return [found.get(begin, FinishedInHour(begins=begin)) for begin in begins]
