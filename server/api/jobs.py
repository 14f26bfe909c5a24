"""Jobs, as people see them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from catalog.access.privileges import Securable
from catalog.jobs.job import Job, JobId, JobKind, JobOutcome, JobStatus
from catalog.names import CatalogName
from catalog.ports.work import JobFilter
from server.api.deps import Out, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.service.planning.overview import HOUR

router = APIRouter(prefix="/jobs", tags=["jobs"])


class AttemptOut(Out):
    """One time that an optimizer had a job. `outcome` says how it ended."""

    number: int
    optimizer: str
    leased_at: datetime
    ended_at: datetime | None
    outcome: str | None


class JobOut(Out):
    """One job. `allowed_actions` names what may be done to it now."""

    id: UUID
    catalog: str
    table: str
    kind: JobKind
    status: JobStatus
    outcome: JobOutcome | None
    """What it came to, once it has succeeded."""
    group: str
    reason: str
    attempt: int
    owner: str | None
    created_at: datetime
    deadline: datetime
    """Until when it should begin: the earliest is taken first."""
    priority: str
    is_long: bool
    leased_at: datetime | None
    lease_until: datetime | None
    ended_at: datetime | None
    committed_snapshot_id: str | None
    error: str | None
    params: dict[str, Any]
    progress: dict[str, Any]
    result: dict[str, Any]
    predicted: dict[str, Any]
    attempts: list[AttemptOut]
    """The last ten, oldest first."""
    allowed_actions: list[str]

    @classmethod
    def of(cls, job: Job) -> JobOut:
        """A job as it is shown; snapshot ids are text because JavaScript's numbers are too small for them."""
        allowed_actions = ["cancel"] if job.can_cancel else []
        allowed_actions += ["retry"] if job.can_retry else []
        plain = ("id", "catalog", "kind", "status", "group", "reason", "attempt", "owner", "created_at", "leased_at")
        more = ("deadline", "priority", "is_long", "lease_until", "ended_at", "error", "params", "progress", "result")
        snapshot = None if job.committed_snapshot_id is None else str(job.committed_snapshot_id)
        values = {name: getattr(job, name) for name in (*plain, *more, "predicted", "outcome")}
        attempts = [AttemptOut.model_validate(asdict(one)) for one in job.attempts]
        return cls(
            **values,
            table=str(job.table),
            committed_snapshot_id=snapshot,
            attempts=attempts,
            allowed_actions=allowed_actions,
        )


class LogLine(Out):
    """One line of a job's log."""

    at: datetime
    line: str


class JobCounts(Out):
    """How many jobs stand where; of those that have ended only the last hour's."""

    counts: dict[JobStatus, int]


def job_filter(
    catalog: Annotated[str | None, Query()] = None,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    kind: Annotated[list[JobKind] | None, Query()] = None,
    group: Annotated[str | None, Query()] = None,
    search: Annotated[str | None, Query(description="a part of a table's full name")] = None,
) -> JobFilter:
    """Which jobs are listed."""
    within = None if catalog is None else CatalogName(catalog)
    return JobFilter(catalog=within, statuses=status or (), kinds=kind or (), group=group, search=search)


@router.get("", summary="List jobs, newest first")
def list_jobs(
    services: ServicesDep, visible: VisibilityDep, page: PagingDep, which: Annotated[JobFilter, Depends(job_filter)]
) -> PageOut[JobOut]:
    """All jobs of this server, or of one catalog or group, or of tables with such a name."""
    with services.database.reading() as uow:
        found = visible.page(
            lambda size, start: uow.jobs.list(which, limit=size, cursor=start),
            lambda job: visible.readable(Securable.of(job.catalog, job.table)),
            within=Securable(which.catalog),
            limit=page.size,
            cursor=page.cursor,
        )
    return PageOut(items=[JobOut.of(job) for job in found.items], next_cursor=found.next_cursor)


@router.get("/counts", summary="Count jobs by status")
def count_jobs(services: ServicesDep) -> JobCounts:
    """For the console's badge."""
    with services.database.reading() as uow:
        counts = Counter(uow.jobs.counts())
        for done in uow.queue.done(uow.now() - HOUR):
            counts[done.status] += done.jobs
    return JobCounts(counts=dict(counts))


@router.get("/{job_id}", summary="Show a job", responses=refusals(404))
def show_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """One job."""
    with services.database.reading() as uow:
        return JobOut.of(uow.jobs.get(JobId(job_id)))


@router.get("/{job_id}/logs", summary="Show a job's log", responses=refusals(404))
def show_log(services: ServicesDep, job_id: UUID) -> list[LogLine]:
    """What its optimizers wrote, oldest first."""
    with services.database.reading() as uow:
        uow.jobs.get(JobId(job_id))
        return [LogLine(at=at, line=line) for at, line in uow.jobs.log(JobId(job_id))]


@router.post("/{job_id}/cancel", summary="Cancel a job", responses=refusals(404, 409))
def cancel_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """Give a job up; its optimizer learns of it at its next beat."""
    return JobOut.of(services.jobs.cancel(JobId(job_id)))


@router.post("/{job_id}/retry", summary="Retry a job", status_code=202, responses=refusals(404, 409))
def retry_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """Plan a new job like a failed or canceled one."""
    return JobOut.of(services.jobs.retry(JobId(job_id)))
