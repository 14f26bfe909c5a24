"""Leases: how optimizers get jobs, keep them and report their end."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress

from anyio import from_thread
from fastapi import APIRouter, Request, Response

from catalog.errors import CatalogError, LeaseLost, Unavailable
from catalog.history.commit import Outcome
from catalog.jobs.job import JobKind
from firn.protocol.answers.jobs import JobOut
from firn.protocol.base import Task
from firn.protocol.leases import (
    Heartbeat,
    HeartbeatAnswer,
    Lease,
    LeasedTable,
    LeaseRequest,
    LocationsRequest,
    Report,
    TableLocation,
)
from firn.protocol.leases import Outcome as Reported
from server.api.deps import LeaseDep, ServicesDep
from server.api.errors import refusals
from server.api.jobs import build_job_out
from server.service.jobs.leased_files import FileFacts
from server.service.jobs.leases import Leased

router = APIRouter(tags=["optimizers"])

log = logging.getLogger(__name__)

POLL_SECONDS = 0.3


@router.post(
    "/leases",
    response_model=Lease,
    summary="Take a lease",
    responses={204: {"description": "nothing to do"}, **refusals(404, 409)},
)
def take_lease(request: Request, services: ServicesDep, body: LeaseRequest) -> Lease | Response:
    """Lease the most urgent pending job of its group to the optimizer, or wait up to `wait_seconds` for one.

    A draining optimizer gets no job.  409 tells an optimizer to finish its jobs and exit.
    """
    optimizer = services.optimizers.record_poll(body.optimizer_id, body.memory)
    waiters: threading.Semaphore = request.app.state.waiters
    waits = body.wait_seconds > 0 and waiters.acquire(blocking=False)
    try:
        deadline = time.monotonic() + (body.wait_seconds if waits else 0)
        while optimizer.draining or not services.jobs.has_work(optimizer.group, body.kinds, allow_code=body.allow_code):
            if time.monotonic() >= deadline or request.app.state.stopping.is_set():
                return Response(status_code=204)
            time.sleep(POLL_SECONDS)
    finally:
        if waits:
            waiters.release()
    if from_thread.run(request.is_disconnected):  # the optimizer died while it waited: a lease would only delay the job
        return Response(status_code=204)
    return _take_lease(services, body) or Response(status_code=204)


def _take_lease(services: ServicesDep, body: LeaseRequest) -> Lease | None:
    leased = services.jobs.take(body.optimizer_id, body.kinds, allow_code=body.allow_code)
    if leased is None:
        return None
    job, times = leased.job, services.jobs.times
    answer = None
    with suppress(LeaseLost):  # somebody dropped the table in the meantime, which ended the job
        answer = _build_task(services, leased)
    if answer is None:
        return None
    task, files = answer
    return Lease(
        lease=str(leased.lease),
        lease_seconds=times.lasts.total_seconds(),
        heartbeat_seconds=times.beat.total_seconds(),
        job_id=str(job.id),
        attempt=job.attempt,
        kind=job.kind,
        catalog=job.catalog,
        table=str(job.table),
        namespace=list(job.table.namespace),
        name=job.table.name,
        params=job.params,
        task=task.model_dump(mode="json"),
        tables=[
            LeasedTable(parts=[*table.name.namespace, table.name.name], snapshot_id=table.snapshot_id)
            for table in files.tables
        ],
        own_locations=list(files.own_locations),
        hive_table=files.hive_table,
        delegation=[str(mode) for mode in files.delegation],
    )


def _build_task(services: ServicesDep, leased: Leased) -> tuple[Task, FileFacts] | None:
    """Build the job's task and the facts about its files; None if that failed, which has ended the lease."""
    job = leased.job
    try:
        if job.kind is JobKind.PIPELINE:
            return services.pipeline_runs.build_task(job), services.leased_files.load_run_facts(job)
        task, context = services.tasks.build_for_lease(job)
        return task, services.leased_files.load_facts(context, task)
    except Unavailable as error:
        services.jobs.postpone(leased.lease, error.message)
    except CatalogError as error:  # most often: the table no longer supports this kind of job
        services.jobs.refuse(leased.lease, error)
    except Exception as error:
        log.exception("building the task of job %s on %s failed", job.id, job.table)
        reason = f"building the task failed: {type(error).__name__}: {error}"
        services.jobs.report(leased.lease, Outcome.REFUSED, error=reason, result={})
    return None


@router.put("/leases/{lease}", summary="Keep a lease alive", responses=refusals(403, 404))
def renew_lease(services: ServicesDep, lease: LeaseDep, body: Heartbeat) -> HeartbeatAnswer:
    """Extend a lease. 403 says that it has ended: the optimizer must stop at once."""
    return HeartbeatAnswer(lease_until=services.jobs.beat(lease, body.progress, body.log, body.memory).lease_until)


@router.get(
    "/leases/{lease}/table-locations", summary="List the locations of the job's tables", responses=refusals(403, 404)
)
def list_table_locations(services: ServicesDep, lease: LeaseDep) -> list[TableLocation]:
    """List the job's tables with their locations; a `keep_reason` says why no file there may be deleted."""
    return [
        TableLocation(
            parts=[*table.name.namespace, table.name.name], location=table.location, keep_reason=table.keep_reason
        )
        for table in services.table_locations.list_locations(lease)
    ]


@router.post(
    "/leases/{lease}/locations",
    status_code=204,
    summary="Check whether the job may open files",
    responses=refusals(400, 403, 404),
)
def check_locations(services: ServicesDep, lease: LeaseDep, body: LocationsRequest) -> None:
    """Check locations. 400 names the first one that the job may not open, but never another table."""
    services.leased_files.check(lease, body.locations)


@router.post("/leases/{lease}/committing", summary="Announce the commit", responses=refusals(403, 404))
def announce_commit(services: ServicesDep, lease: LeaseDep) -> HeartbeatAnswer:
    """Announce the first commit. If the optimizer falls silent afterwards, the job's outcome is unknown."""
    return HeartbeatAnswer(lease_until=services.jobs.begin_commit(lease).lease_until)


@router.post("/leases/{lease}/report", summary="Report the end of a job", responses=refusals(403, 404))
def report(services: ServicesDep, lease: LeaseDep, body: Report) -> JobOut:
    """Report the end of a job. If the server has recorded a commit of the job, that record decides."""
    outcome = None if body.outcome is Reported.NOTHING else Outcome(body.outcome)
    job = services.jobs.report(lease, outcome, error=body.error, result=body.result, log=body.log)
    if not job.status.is_active and services.hive.publish_requests.is_open(job.relation_id):
        services.hive.poke_publishes()
    return build_job_out(job)
