"""The overview of all background work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from fastapi import APIRouter

from catalog.jobs.job import JobKind, JobStatus
from catalog.jobs.queue import FinishedJobs
from firn.protocol.base import Out
from firn.protocol.names import join_name
from server.api.deps import ServicesDep
from server.api.groups import GroupOut
from server.service.planning.overview import DAY, HOUR, Load, Overview

router = APIRouter(tags=["optimizers"])


class WaitingOut(Out):
    """Pending jobs of one group, kind and priority; `oldest_seconds` is the age of the oldest."""

    group: str
    kind: JobKind
    priority: str
    jobs: int
    oldest_seconds: float
    deadline: datetime


class LoadOut(GroupOut):
    """A group with the slots of its live optimizers, and the numbers of running and pending jobs."""

    slots: int
    running: int
    waiting: int
    oldest_seconds: float | None


class DoneOut(Out):
    """The ended jobs of one kind and status."""

    kind: JobKind
    status: JobStatus
    jobs: int
    tables: int
    bytes_rewritten: int
    bytes_freed: int


class ThroughputOut(Out):
    """The jobs that ended within a period. A table counts once per kind of job."""

    jobs: int
    tables_per_minute: float
    bytes_rewritten: int
    bytes_freed: int
    by_kind: list[DoneOut]


class HourOut(Out):
    """The jobs that ended within one hour, and the bytes that they deleted from storage."""

    begins: datetime
    succeeded: int
    failed: int
    canceled: int
    bytes_freed: int


class OverdueOut(Out):
    """A pending job after its deadline."""

    id: UUID
    catalog: str
    table: str
    kind: JobKind
    group: str
    created_at: datetime
    overdue_seconds: float


class TableStatusOut(Out):
    """The planner's last assessment of a table."""

    catalog: str
    table: str
    health: int
    parts: dict[str, float]
    reason: str
    next_at: datetime | None
    looked_at: datetime


class StatusOut(Out):
    """All background work at a glance. `due_tables` counts the tables that the planner has still to assess.

    `hours` are the last 24, oldest first; the last one is the current hour.
    """

    at: datetime
    due_tables: int
    queue: list[WaitingOut]
    groups: list[LoadOut]
    last_hour: ThroughputOut
    last_day: ThroughputOut
    hours: list[HourOut]
    overdue: list[OverdueOut]
    worst: list[TableStatusOut]


@router.get("/status", summary="Show all background work at a glance")
def show_status(services: ServicesDep) -> StatusOut:
    """Show the queue, the groups with their slots, ended jobs, the worst tables and the most overdue jobs."""
    overview = services.overview.load()
    return StatusOut(
        at=overview.at,
        due_tables=overview.due_tables,
        queue=_describe_queue(overview),
        groups=[_describe_load(overview, load) for load in overview.groups],
        last_hour=_describe_throughput(overview.last_hour, HOUR.total_seconds()),
        last_day=_describe_throughput(overview.last_day, DAY.total_seconds()),
        hours=[HourOut.model_validate(hour) for hour in overview.hours],
        overdue=_describe_overdue(overview),
        worst=_describe_worst(overview),
    )


def _describe_queue(overview: Overview) -> list[WaitingOut]:
    return [
        WaitingOut(
            group=pending.group,
            kind=pending.kind,
            priority=pending.priority,
            jobs=pending.jobs,
            oldest_seconds=_seconds_since(overview, pending.oldest),
            deadline=pending.deadline,
        )
        for pending in overview.waiting
    ]


def _describe_load(overview: Overview, load: Load) -> LoadOut:
    waiting = [pending for pending in overview.waiting if pending.group == load.group.name]
    return LoadOut(
        **GroupOut.model_validate(load.group).model_dump(),
        slots=load.slots,
        running=load.leased,
        waiting=sum(pending.jobs for pending in waiting),
        oldest_seconds=max((_seconds_since(overview, pending.oldest) for pending in waiting), default=None),
    )


def _describe_throughput(finished: Sequence[FinishedJobs], seconds: float) -> ThroughputOut:
    succeeded = [jobs for jobs in finished if jobs.status is JobStatus.SUCCEEDED]
    return ThroughputOut(
        jobs=sum(jobs.jobs for jobs in finished),
        tables_per_minute=round(sum(jobs.tables for jobs in succeeded) * 60 / seconds, 2),
        bytes_rewritten=sum(jobs.bytes_rewritten for jobs in succeeded),
        bytes_freed=sum(jobs.bytes_freed for jobs in succeeded),
        by_kind=[DoneOut.model_validate(jobs) for jobs in finished],
    )


def _describe_overdue(overview: Overview) -> list[OverdueOut]:
    return [
        OverdueOut(
            id=job.id,
            catalog=job.catalog,
            table=str(job.table),
            kind=job.kind,
            group=job.group,
            created_at=job.created_at,
            overdue_seconds=_seconds_since(overview, job.deadline),
        )
        for job in overview.overdue
    ]


def _describe_worst(overview: Overview) -> list[TableStatusOut]:
    return [
        TableStatusOut(
            catalog=relation.catalog,
            table=join_name((*relation.name.namespace, relation.name.name)),
            health=table_status.health,
            parts=dict(table_status.parts),
            reason=table_status.reason,
            next_at=table_status.next_at,
            looked_at=table_status.looked_at,
        )
        for relation, table_status in overview.worst
    ]


def _seconds_since(overview: Overview, since: datetime) -> float:
    return max((overview.at - since).total_seconds(), 0.0)
