"""Leases: how background work is handed out."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress

from anyio import from_thread
from fastapi import APIRouter, Request, Response

from catalog.errors import CatalogError, LeaseLost, Unavailable
from catalog.history.commit import Outcome
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
from server.api.jobs import JobOut
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
    """Give the optimizer its group's oldest pending job, waiting a while for one to come.

    One that drains waits in vain; 409 tells one that was asked to stop to finish what it holds and leave.
    """
    optimizer = services.optimizers.seen(body.optimizer_id, body.memory)
    waiters: threading.Semaphore = request.app.state.waiters
    waits = body.wait_seconds > 0 and waiters.acquire(blocking=False)
    try:
        deadline = time.monotonic() + (body.wait_seconds if waits else 0)
        while optimizer.draining or not services.jobs.has_work(optimizer.group, body.kinds):
            if time.monotonic() >= deadline or request.app.state.stopping.is_set():
                return Response(status_code=204)
            time.sleep(POLL_SECONDS)
    finally:
        if waits:
            waiters.release()
    if from_thread.run(request.is_disconnected):  # it died while it waited: its lease would only hold the job up
        return Response(status_code=204)
    return _lease(services, body) or Response(status_code=204)


def _lease(services: ServicesDep, body: LeaseRequest) -> Lease | None:
    given = services.jobs.take(body.optimizer_id, body.kinds)
    if given is None:
        return None
    job, times = given.job, services.jobs.times
    told = None
    with suppress(LeaseLost):  # the table was dropped meanwhile, which has ended the job
        told = _task_of(services, given)
    if told is None:
        return None
    task, files = told
    return Lease(
        lease=str(given.lease),
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
            LeasedTable(parts=[*one.name.namespace, one.name.name], snapshot_id=one.snapshot_id) for one in files.tables
        ],
        own_locations=list(files.own_locations),
        hive_table=files.hive_table,
        delegation=[str(one) for one in files.delegation],
    )


def _task_of(services: ServicesDep, given: Leased) -> tuple[Task, FileFacts] | None:
    """The job's task and what it may open; None when they cannot be told, now or at all: the lease has ended then."""
    job = given.job
    try:
        task, context = services.tasks.leased(job)
        return task, services.leased_files.facts(context, task)
    except Unavailable as error:
        services.jobs.put_off(given.lease, error.message)
    except CatalogError as error:  # most often: the table is not one for such a job any more
        services.jobs.refuse(given.lease, error)
    except Exception as error:
        log.exception("the task of job %s on %s cannot be made", job.id, job.table)
        reason = f"its task cannot be made: {type(error).__name__}: {error}"
        services.jobs.report(given.lease, Outcome.REFUSED, error=reason, result={})
    return None


@router.put("/leases/{lease}", summary="Keep a lease alive", responses=refusals(403, 404))
def beat(services: ServicesDep, lease: LeaseDep, body: Heartbeat) -> HeartbeatAnswer:
    """403 says that the lease has ended: stop at once."""
    return HeartbeatAnswer(lease_until=services.jobs.beat(lease, body.progress, body.log, body.memory).lease_until)


@router.get("/leases/{lease}/table-locations", summary="Say whose the files are", responses=refusals(403, 404))
def list_places(services: ServicesDep, lease: LeaseDep) -> list[TableLocation]:
    """Where the job's tables have their files, and why none of them may be deleted, if so."""
    return [
        TableLocation(parts=[*one.name.namespace, one.name.name], location=one.location, keep_reason=one.keep_reason)
        for one in services.table_locations.of(lease)
    ]


@router.post(
    "/leases/{lease}/locations",
    status_code=204,
    summary="Ask whether files may be opened",
    responses=refusals(400, 403, 404),
)
def check_locations(services: ServicesDep, lease: LeaseDep, body: LocationsRequest) -> None:
    """400 tells of the first location that the job may not open; it names no other table."""
    services.leased_files.check(lease, body.locations)


@router.post("/leases/{lease}/committing", summary="Say that the commit comes", responses=refusals(403, 404))
def committing(services: ServicesDep, lease: LeaseDep) -> HeartbeatAnswer:
    """Before the first commit is asked for; from then on silence means that nobody knows."""
    return HeartbeatAnswer(lease_until=services.jobs.committing(lease).lease_until)


@router.post("/leases/{lease}/report", summary="Report the end", responses=refusals(403, 404))
def report(services: ServicesDep, lease: LeaseDep, body: Report) -> JobOut:
    """The job's own record of what was committed has the last word."""
    outcome = None if body.outcome is Reported.NOTHING else Outcome(body.outcome)
    job = services.jobs.report(lease, outcome, error=body.error, result=body.result, log=body.log)
    if not job.status.is_active and services.hive.publishes.is_asked_for(job.relation_id):
        services.hive.poke_publishes()
    return JobOut.of(job)
