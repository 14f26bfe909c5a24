"""The overview of all background work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from fastapi import APIRouter

from catalog.jobs.job import JobKind, JobStatus
from catalog.jobs.queue import FinishedJobs
from firn.protocol.names import join_name
from server.api.deps import Out, ServicesDep
from server.api.groups import GroupOut
from server.service.planning.overview import DAY, HOUR, Load, Overview

router = APIRouter(tags=["optimizers"])


class WaitingOut(Out):
    """Jobs of one group, kind and priority that wait; `oldest_seconds` is how long the first of them does."""

    group: str
    kind: JobKind
    priority: str
    jobs: int
    oldest_seconds: float
    deadline: datetime


class LoadOut(GroupOut):
    """A group with the slots of its living optimizers, and how many jobs have one or wait for one."""

    slots: int
    running: int
    waiting: int
    oldest_seconds: float | None


class DoneOut(Out):
    """Jobs of one kind that ended in one way."""

    kind: JobKind
    status: JobStatus
    jobs: int
    tables: int
    bytes_rewritten: int
    bytes_freed: int


class ThroughputOut(Out):
    """What was done within some time. A table counts for each kind of job that it had."""

    jobs: int
    tables_per_minute: float
    bytes_rewritten: int
    bytes_freed: int
    by_kind: list[DoneOut]


class HourOut(Out):
    """What ended within one hour, and what that has deleted from storage."""

    begins: datetime
    succeeded: int
    failed: int
    canceled: int
    bytes_freed: int


class OverdueOut(Out):
    """A job that should have begun by now."""

    id: UUID
    catalog: str
    table: str
    kind: JobKind
    group: str
    created_at: datetime
    overdue_seconds: float


class TableStatusOut(Out):
    """How a table stood when the planner last looked."""

    catalog: str
    table: str
    health: int
    parts: dict[str, float]
    reason: str
    next_at: datetime | None
    looked_at: datetime


class StatusOut(Out):
    """All background work at a glance; `due_tables` are still to be looked at by the planner.

    `hours` are the last 24, oldest first; the last of them is not over.
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
    """The queue, the groups with their slots, what was done, the worst tables and the most overdue jobs."""
    found = services.overview.load()
    return StatusOut(
        at=found.at,
        due_tables=found.due_tables,
        queue=_queue(found),
        groups=[_load(found, load) for load in found.groups],
        last_hour=_throughput(found.last_hour, HOUR.total_seconds()),
        last_day=_throughput(found.last_day, DAY.total_seconds()),
        hours=[HourOut.model_validate(one) for one in found.hours],
        overdue=_overdue(found),
        worst=_worst(found),
    )


def _queue(found: Overview) -> list[WaitingOut]:
    return [
        WaitingOut(
            group=one.group,
            kind=one.kind,
            priority=one.priority,
            jobs=one.jobs,
            oldest_seconds=_seconds(found, one.oldest),
            deadline=one.deadline,
        )
        for one in found.waiting
    ]


def _load(found: Overview, load: Load) -> LoadOut:
    waiting = [one for one in found.waiting if one.group == load.group.name]
    return LoadOut(
        **GroupOut.model_validate(load.group).model_dump(),
        slots=load.slots,
        running=load.leased,
        waiting=sum(one.jobs for one in waiting),
        oldest_seconds=max((_seconds(found, one.oldest) for one in waiting), default=None),
    )


def _throughput(done: Sequence[FinishedJobs], seconds: float) -> ThroughputOut:
    good = [one for one in done if one.status is JobStatus.SUCCEEDED]
    return ThroughputOut(
        jobs=sum(one.jobs for one in done),
        tables_per_minute=round(sum(one.tables for one in good) * 60 / seconds, 2),
        bytes_rewritten=sum(one.bytes_rewritten for one in good),
        bytes_freed=sum(one.bytes_freed for one in good),
        by_kind=[DoneOut.model_validate(one) for one in done],
    )


def _overdue(found: Overview) -> list[OverdueOut]:
    return [
        OverdueOut(
            id=job.id,
            catalog=job.catalog,
            table=str(job.table),
            kind=job.kind,
            group=job.group,
            created_at=job.created_at,
            overdue_seconds=_seconds(found, job.deadline),
        )
        for job in found.overdue
    ]


def _worst(found: Overview) -> list[TableStatusOut]:
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
        for relation, table_status in found.worst
    ]


def _seconds(found: Overview, since: datetime) -> float:
    return max((found.at - since).total_seconds(), 0.0)
