"""Jobs, as the management API shows them to people."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from catalog.access.privileges import Securable
from catalog.jobs.job import Job, JobId, JobKind, JobStatus
from catalog.names import CatalogName
from catalog.ports.work import JobFilter
from firn.protocol.answers.jobs import AttemptOut, JobOut, LogLine
from firn.protocol.base import Out
from server.api.deps import PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.service.planning.overview import HOUR

router = APIRouter(prefix="/jobs", tags=["jobs"])


class JobCounts(Out):
    """Jobs by status. Ended jobs count for one hour."""

    counts: dict[JobStatus, int]


async def parse_job_filter(
    catalog: Annotated[str | None, Query()] = None,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    kind: Annotated[list[JobKind] | None, Query()] = None,
    group: Annotated[str | None, Query()] = None,
    search: Annotated[str | None, Query(description="a part of a table's full name")] = None,
) -> JobFilter:
    """Parse the filter of a list of jobs."""
    within = None if catalog is None else CatalogName(catalog)
    return JobFilter(catalog=within, statuses=status or (), kinds=kind or (), group=group, search=search)


@router.get("", summary="List jobs, newest first")
def list_jobs(
    services: ServicesDep,
    visible: VisibilityDep,
    page: PagingDep,
    only: Annotated[JobFilter, Depends(parse_job_filter)],
) -> PageOut[JobOut]:
    """List all jobs, or those that the filters select."""
    with services.database.reading() as uow:
        jobs = visible.page(
            lambda size, start: uow.jobs.list(only, limit=size, cursor=start),
            lambda job: visible.readable(Securable.of(job.catalog, job.table)),
            within=Securable(only.catalog),
            limit=page.size,
            cursor=page.cursor,
        )
    return PageOut(items=[build_job_out(job) for job in jobs.items], next_cursor=jobs.next_cursor)


@router.get("/counts", summary="Count jobs by status")
def count_jobs(services: ServicesDep) -> JobCounts:
    """Count jobs by status, for the console's badge."""
    with services.database.reading() as uow:
        counts = Counter(uow.jobs.counts())
        for finished in uow.queue.done(uow.now() - HOUR):
            counts[finished.status] += finished.jobs
    return JobCounts(counts=dict(counts))


@router.get("/{job_id}", summary="Show a job", responses=refusals(404))
def show_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """Show one job."""
    with services.database.reading() as uow:
        return build_job_out(uow.jobs.get(JobId(job_id)))


@router.get("/{job_id}/logs", summary="Show a job's log", responses=refusals(404))
def show_log(services: ServicesDep, job_id: UUID) -> list[LogLine]:
    """Show the log lines of its optimizers, oldest first."""
    with services.database.reading() as uow:
        uow.jobs.get(JobId(job_id))
        return [LogLine(at=at, line=line) for at, line in uow.jobs.log(JobId(job_id))]


@router.post("/{job_id}/cancel", summary="Cancel a job", responses=refusals(404, 409))
def cancel_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """Cancel a job. Its optimizer stops at its next heartbeat."""
    return build_job_out(services.jobs.cancel(JobId(job_id)))


@router.post("/{job_id}/retry", summary="Retry a job", status_code=202, responses=refusals(404, 409))
def retry_job(services: ServicesDep, job_id: UUID) -> JobOut:
    """Queue a new job with the kind and parameters of a failed or canceled one."""
    return build_job_out(services.jobs.retry(JobId(job_id)))


def build_job_out(job: Job) -> JobOut:
    """Build the answer from a job. Snapshot ids are text because they exceed the integers of JavaScript."""
    allowed_actions = ["cancel"] if job.can_cancel else []
    allowed_actions += ["retry"] if job.can_retry else []
    plain = ("id", "catalog", "kind", "status", "group", "reason", "attempt", "owner", "created_at", "leased_at")
    more = ("deadline", "priority", "is_long", "lease_until", "ended_at", "error", "params", "progress", "result")
    snapshot = None if job.committed_snapshot_id is None else str(job.committed_snapshot_id)
    values = {name: getattr(job, name) for name in (*plain, *more, "predicted", "outcome")}
    attempts = [AttemptOut.model_validate(asdict(attempt)) for attempt in job.attempts]
    return JobOut(
        **values,
        table=str(job.table),
        committed_snapshot_id=snapshot,
        attempts=attempts,
        allowed_actions=allowed_actions,
    )
