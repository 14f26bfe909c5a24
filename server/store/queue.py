"""The queue of jobs as a whole, in the database."""

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
        """SQLite's writers are alone anyway."""
        if self.session.get_bind().dialect.name != "sqlite":
            self.session.execute(_HOLD, {"group": group})

    def long_leased(self, group: GroupName) -> int:
        """By the index of the queue."""
        long = (JobRow.group_name == group, JobRow.status.in_(_LEASED), JobRow.is_long)
        return self.session.scalar(select(func.count()).select_from(JobRow).where(*long)) or 0

    def ran_since(self, group: GroupName, since: datetime) -> Sequence[SlotRun]:
        """Those that have ended by one index, those that have not by another."""
        columns = select(JobRow.catalog, JobRow.relation_id, JobRow.leased_at, JobRow.ended_at)
        had_a_slot = columns.where(JobRow.group_name == group, JobRow.leased_at.is_not(None))
        ended = self.session.execute(had_a_slot.where(JobRow.ended_at >= since)).all()
        leased = self.session.execute(had_a_slot.where(JobRow.status.in_(_LEASED))).all()
        return [
            SlotRun(catalog=CatalogName(catalog), table=RelationId(table), since=begun, until=until)
            for catalog, table, begun, until in (*ended, *leased)
            if begun is not None
        ]

    def pending_seconds(self, group: GroupName) -> Mapping[CatalogName, float]:
        """By the index of the queue."""
        query = select(JobRow.catalog, func.sum(JobRow.predicted_seconds)).where(JobRow.group_name == group, _PENDING)
        rows = self.session.execute(query.group_by(JobRow.catalog))
        return {CatalogName(catalog): seconds for catalog, seconds in rows}

    def last_was_asked(self, group: GroupName) -> bool:
        """By an index of when jobs were leased."""
        query = select(JobRow.requested).where(JobRow.group_name == group, JobRow.leased_at.is_not(None))
        return bool(self.session.scalar(query.order_by(JobRow.leased_at.desc()).limit(1)))

    def waiting(self) -> Sequence[QueuedJobs]:
        """By group, kind and priority."""
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
        """By group and kind."""
        query = select(JobRow.group_name, JobRow.kind, func.count()).where(JobRow.status.in_(_LEASED))
        rows = self.session.execute(query.group_by(JobRow.group_name, JobRow.kind))
        return {(GroupName(group), JobKind(kind)): count for group, kind, count in rows}

    def done(self, since: datetime) -> Sequence[FinishedJobs]:
        """By kind and how they ended."""
        query = select(
            JobRow.kind,
            JobRow.status,
            func.count(),
            func.count(JobRow.relation_id.distinct()),
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
        """By the index of when jobs ended."""
        seconds = func.round(extract("epoch", JobRow.ended_at) - 0.5)  # a cast alone rounds on PostgreSQL
        hour = (cast(seconds, BigInteger) // _HOUR).label("hour")
        query = select(hour, JobRow.status, func.count(), func.coalesce(func.sum(JobRow.bytes_freed), 0))
        found: dict[int, FinishedInHour] = {}
        for number, status, jobs, freed in self.session.execute(
            query.where(JobRow.ended_at >= since).group_by(hour, JobRow.status).order_by(hour)
        ):
            one = found.get(number, FinishedInHour(begins=datetime.fromtimestamp(number * _HOUR, UTC)))
            counts: dict[str, Any] = {str(JobStatus(status)): jobs, "bytes_freed": one.bytes_freed + int(freed)}
            found[number] = replace(one, **counts)
        return list(found.values())

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Job]:
        """The most overdue first."""
        query = select(JobRow).where(_PENDING, JobRow.deadline < now)
        return [to_job(row) for row in self.session.scalars(query.order_by(JobRow.deadline).limit(limit))]

    def count_due(self, now: datetime) -> int:
        """By their partial index."""
        return self.session.scalar(select(func.count()).where(TableStatsRow.plan_after <= now)) or 0
