"""Statistics and locks of the job queue in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, cast, extract, func, select, text

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.optimizer_group import GroupName
from catalog.jobs.queue import FinishedInHour, FinishedJobs, QueuedJobs
from catalog.jobs.scheduling import SlotRun
from catalog.names import CatalogName, RelationId
from server.store.job_rows import JobRow
from server.store.jobs import to_job
from server.store.rows import TableStatsRow
from server.store.session import ReadSession

_LEASED = [status for status in JobStatus if status.is_leased]
_PENDING = JobRow.status == JobStatus.PENDING
_HOUR = 3600
_HOLD = text("SELECT pg_advisory_xact_lock(hashtextextended(:group, 1))")


@dataclass(frozen=True)
class SqlQueue:
    """See catalog.ports.work.Queue."""

    session: ReadSession

    def hold(self, group: GroupName) -> None:
        """Lock the queue of a group until the transaction ends (SQLite has one writer at a time)."""
        if self.session.get_bind().dialect.name != "sqlite":
            self.session.execute(_HOLD, {"group": group})

    def long_leased(self, group: GroupName) -> int:
        """Count leased long jobs, by the index of the queue."""
        long = (JobRow.group_name == group, JobRow.status.in_(_LEASED), JobRow.is_long)
        return self.session.scalar(select(func.count()).select_from(JobRow).where(*long)) or 0

    def ran_since(self, group: GroupName, since: datetime) -> Sequence[SlotRun]:
        """List the slot use of jobs since a time: ended jobs by one index, running ones by another."""
        columns = select(JobRow.catalog, JobRow.subject_id, JobRow.leased_at, JobRow.ended_at)
        had_a_slot = columns.where(JobRow.group_name == group, JobRow.leased_at.is_not(None))
        ended = self.session.execute(had_a_slot.where(JobRow.ended_at >= since)).all()
        leased = self.session.execute(had_a_slot.where(JobRow.status.in_(_LEASED))).all()
        return [
            SlotRun(catalog=CatalogName(catalog), table=RelationId(table), since=started, until=until)
            for catalog, table, started, until in (*ended, *leased)
            if started is not None
        ]

    def pending_seconds(self, group: GroupName) -> Mapping[CatalogName, float]:
        """Sum the predicted seconds of pending jobs by catalog, by the index of the queue."""
        query = select(JobRow.catalog, func.sum(JobRow.predicted_seconds)).where(JobRow.group_name == group, _PENDING)
        rows = self.session.execute(query.group_by(JobRow.catalog))
        return {CatalogName(catalog): seconds for catalog, seconds in rows}

    def last_was_asked(self, group: GroupName) -> bool:
        """Whether somebody requested the last leased job, by the index on lease times."""
        query = select(JobRow.requested).where(JobRow.group_name == group, JobRow.leased_at.is_not(None))
        return bool(self.session.scalar(query.order_by(JobRow.leased_at.desc()).limit(1)))

    def waiting(self) -> Sequence[QueuedJobs]:
        """Count pending jobs by group, kind and priority."""
        by = (JobRow.group_name, JobRow.kind, JobRow.priority)
        query = select(*by, func.count(), func.min(JobRow.created_at), func.min(JobRow.deadline))
        return [
            QueuedJobs(
                group=GroupName(group), kind=JobKind(kind), priority=priority, jobs=jobs, oldest=oldest, deadline=due
            )
            for group, kind, priority, jobs, oldest, due in self.session.execute(
                query.where(_PENDING).group_by(*by).order_by(*by)
            )
        ]

    def leased(self) -> Mapping[tuple[GroupName, JobKind], int]:
        """Count leased jobs by group and kind."""
        query = select(JobRow.group_name, JobRow.kind, func.count()).where(JobRow.status.in_(_LEASED))
        rows = self.session.execute(query.group_by(JobRow.group_name, JobRow.kind))
        return {(GroupName(group), JobKind(kind)): count for group, kind, count in rows}

    def done(self, since: datetime) -> Sequence[FinishedJobs]:
        """Count ended jobs by kind and status."""
        query = select(
            JobRow.kind,
            JobRow.status,
            func.count(),
            func.count(JobRow.subject_id.distinct()),
            func.coalesce(func.sum(JobRow.bytes_rewritten), 0),
            func.coalesce(func.sum(JobRow.bytes_freed), 0),
        )
        rows = self.session.execute(
            query.where(JobRow.ended_at >= since).group_by(JobRow.kind, JobRow.status).order_by(JobRow.kind)
        )
        return [
            FinishedJobs(
                kind=JobKind(kind),
                status=JobStatus(status),
                jobs=jobs,
                tables=tables,
                bytes_rewritten=int(rewritten),
                bytes_freed=int(freed),
            )
            for kind, status, jobs, tables, rewritten, freed in rows
        ]

    def done_by_hour(self, since: datetime) -> Sequence[FinishedInHour]:
        """Count ended jobs by hour, by the index on end times."""
        seconds = func.round(extract("epoch", JobRow.ended_at) - 0.5)  # a cast alone rounds on PostgreSQL
        hour = (cast(seconds, BigInteger) // _HOUR).label("hour")
        query = select(hour, JobRow.status, func.count(), func.coalesce(func.sum(JobRow.bytes_freed), 0))
        hours: dict[int, FinishedInHour] = {}
        for number, status, jobs, freed in self.session.execute(
            query.where(JobRow.ended_at >= since).group_by(hour, JobRow.status).order_by(hour)
        ):
            current = hours.get(number, FinishedInHour(begins=datetime.fromtimestamp(number * _HOUR, UTC)))
            counts: dict[str, Any] = {str(JobStatus(status)): jobs, "bytes_freed": current.bytes_freed + int(freed)}
            hours[number] = replace(current, **counts)
        return list(hours.values())

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Job]:
        """List pending jobs after their deadline, the most overdue first."""
        query = select(JobRow).where(_PENDING, JobRow.deadline < now)
        return [to_job(row) for row in self.session.scalars(query.order_by(JobRow.deadline).limit(limit))]

    def count_due(self, now: datetime) -> int:
        """Count tables that the planner has to assess, by a partial index."""
        return self.session.scalar(select(func.count()).where(TableStatsRow.plan_after <= now)) or 0
