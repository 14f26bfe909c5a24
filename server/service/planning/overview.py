"""The overview of all maintenance: queues, optimizer groups, finished jobs and the least healthy tables."""

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
from server.service.planning.health import GRADES

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS = 24
LISTED = 20
"""Tables and jobs that the overview names one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A group with the slots of its running optimizers, and how many of these slots have a job."""

    group: Group
    slots: int
    leased: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Waiting, running and finished jobs, and the tables behind them."""

    at: datetime
    due_tables: int
    """Tables and stores that the planner still has to assess."""
    waiting: Sequence[QueuedJobs]
    groups: Sequence[Load]
    last_hour: Sequence[FinishedJobs]
    last_day: Sequence[FinishedJobs]
    hours: Sequence[FinishedInHour]
    """The last 24 clock hours, oldest first; the last one is still running."""
    overdue: Sequence[Job]
    worst: Sequence[tuple[Relation, TableStatus]]
    by_health: Mapping[str, int]
    """Number of tables by health grade (see planning.health.GRADES)."""


@dataclass(frozen=True)
class MaintenanceOverview:
    """The maintenance of all tables in one database."""

    database: Database
    lease: timedelta

    def load(self) -> Overview:
        """The current overview; every query uses an index, so the number of tables does not matter."""
        with self.database.reading() as uow:
            now = uow.now()
            waiting = uow.queue.waiting()
            return Overview(
                at=now,
                due_tables=uow.queue.count_due(now),
                waiting=waiting,
                groups=self._load_groups(uow, waiting, now),
                last_hour=uow.queue.done(now - HOUR),
                last_day=uow.queue.done(now - DAY),
                hours=_load_hours(uow, now),
                overdue=uow.queue.overdue(now, limit=LISTED),
                worst=uow.table_statuses.worst(limit=LISTED),
                by_health=uow.table_statuses.by_health(GRADES),
            )

    def _load_groups(self, uow: UnitOfWork, waiting: Sequence[QueuedJobs], now: datetime) -> list[Load]:
        """All created groups, and all groups that optimizers or running or waiting jobs name."""
        leased = uow.queue.leased()
        created = {group.name: group for group in uow.groups.list()}
        named = {GroupName(optimizer.group) for optimizer in uow.optimizers.list()}
        named |= {queued.group for queued in waiting} | {group for group, _ in leased}
        return [
            Load(
                group=created.get(name, Group(name=name)),
                slots=count_slots(uow, name, now, self.lease),
                leased=sum(jobs for (group, _), jobs in leased.items() if group == name),
            )
            for name in sorted({*created, *named})
        ]


def _load_hours(uow: UnitOfWork, now: datetime) -> list[FinishedInHour]:
    """Each hour of the last day, also hours without finished jobs."""
    current_hour = now.replace(minute=0, second=0, microsecond=0)
    starts = [current_hour - HOUR * age for age in range(HOURS - 1, -1, -1)]
    finished = {hour.begins: hour for hour in uow.queue.done_by_hour(starts[0])}
    return [finished.get(start, FinishedInHour(begins=start)) for start in starts]
