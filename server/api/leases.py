"""Leases and optimizers: how background work is handed out."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from anyio import from_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from catalog.commit import Outcome
from catalog.errors import CatalogError
from catalog.iceberg.json import HIGHEST_INT
from catalog.job import JobKind
from catalog.optimizer import Optimizer
from server.api.deps import In, LeaseDep, Out, ServicesDep
from server.api.errors import refusals
from server.api.jobs import JobOut

router = APIRouter(tags=["optimizers"])

POLL_SECONDS = 0.3
LONGEST_WAIT = 20


class OptimizerIn(In):
    """An optimizer that comes to work."""

    group: str = "default"
    host: str
    pid: Annotated[int, Field(ge=0, le=HIGHEST_INT)]
    version: str
    facts: dict[str, Any] = {}


class OptimizerOut(Out):
    """A registered optimizer and what it does now."""

    id: str
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    job_id: UUID | None
    draining: bool
    facts: dict[str, Any]


class RegisteredOut(OptimizerOut):
    """What an optimizer has to know to work."""

    lease_seconds: float
    beat_seconds: float


class LeaseIn(In):
    """Which job kinds an optimizer can run and how long it will wait for one."""

    optimizer_id: str
    kinds: list[JobKind]
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = LONGEST_WAIT


class LeaseOut(Out):
    """A job and everything needed to run it."""

    lease: str
    lease_seconds: float
    beat_seconds: float
    job_id: UUID
    attempt: int
    kind: JobKind
    catalog: str
    table: str
    namespace: list[str]
    name: str
    params: dict[str, Any]
    task: dict[str, Any]


class BeatIn(In):
    """How far a job is, and lines for its log."""

    progress: dict[str, Any] = {}
    log: list[str] = []


class BeatOut(Out):
    """Until when the lease now lasts."""

    lease_until: datetime | None


class ReportedOutcome(StrEnum):
    """How an attempt ended, as its optimizer saw it."""

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOTHING = "nothing"


class ReportIn(In):
    """The end of an attempt."""

    outcome: ReportedOutcome
    error: str | None = None
    result: dict[str, Any] = {}
    log: list[str] = []


@router.post("/optimizers", status_code=201, summary="Register an optimizer")
def register(services: ServicesDep, body: OptimizerIn) -> RegisteredOut:
    """Called once by every optimizer when it starts, and again when it is told that it is not known."""
    optimizer = services.jobs.register(**body.model_dump())
    times = services.jobs.times
    return RegisteredOut(
        **_optimizer(optimizer), lease_seconds=times.lasts.total_seconds(), beat_seconds=times.beat.total_seconds()
    )


@router.get("/optimizers", summary="List optimizers")
def list_optimizers(services: ServicesDep) -> list[OptimizerOut]:
    """All registered optimizers."""
    with services.database.reading() as uow:
        return [OptimizerOut(**_optimizer(one)) for one in uow.optimizers.list()]


@router.delete("/optimizers/{optimizer_id}", status_code=204, summary="Unregister an optimizer")
def unregister(services: ServicesDep, optimizer_id: str) -> None:
    """What it still holds goes back to the queue."""
    services.jobs.unregister(optimizer_id)


def _optimizer(optimizer: Optimizer) -> dict[str, Any]:
    return {name: getattr(optimizer, name) for name in Optimizer.__slots__}


@router.post(
    "/leases",
    response_model=LeaseOut,
    summary="Take a lease",
    responses={204: {"description": "nothing to do"}, **refusals(404)},
)
def take_lease(request: Request, services: ServicesDep, body: LeaseIn) -> LeaseOut | Response:
    """Give the optimizer its group's oldest pending job, waiting a while for one to come."""
    optimizer = services.jobs.seen(body.optimizer_id)
    waiters: threading.Semaphore = request.app.state.waiters
    waits = body.wait_seconds > 0 and waiters.acquire(blocking=False)
    try:
        deadline = time.monotonic() + (body.wait_seconds if waits else 0)
        while not services.jobs.has_work(optimizer.group, body.kinds):
            if time.monotonic() >= deadline or request.app.state.stopping.is_set():
                return Response(status_code=204)
            time.sleep(POLL_SECONDS)
    finally:
        if waits:
            waiters.release()
    if from_thread.run(request.is_disconnected):  # it died while it waited: its lease would only hold the job up
        return Response(status_code=204)
    return _lease(services, body) or Response(status_code=204)


def _lease(services: ServicesDep, body: LeaseIn) -> LeaseOut | None:
    given = services.jobs.take(body.optimizer_id, body.kinds)
    if given is None:
        return None
    job, times = given.job, services.jobs.times
    try:
        task = services.tasks.of(job)
    except CatalogError as error:  # most often: the table was dropped meanwhile
        services.jobs.report(given.lease, Outcome.REFUSED, error=error.message, result={})
        return None
    return LeaseOut(
        lease=str(given.lease),
        lease_seconds=times.lasts.total_seconds(),
        beat_seconds=times.beat.total_seconds(),
        job_id=job.id,
        attempt=job.attempt,
        kind=job.kind,
        catalog=job.catalog,
        table=str(job.table),
        namespace=list(job.table.namespace),
        name=job.table.name,
        params=job.params,
        task=task,
    )


@router.put("/leases/{lease}", summary="Keep a lease alive", responses=refusals(403, 404))
def beat(services: ServicesDep, lease: LeaseDep, body: BeatIn) -> BeatOut:
    """403 says that the lease has ended: stop at once."""
    return BeatOut(lease_until=services.jobs.beat(lease, body.progress, body.log).lease_until)


@router.post("/leases/{lease}/committing", summary="Say that the commit comes", responses=refusals(403, 404))
def committing(services: ServicesDep, lease: LeaseDep) -> BeatOut:
    """Before the first commit is asked for; from then on silence means that nobody knows."""
    return BeatOut(lease_until=services.jobs.committing(lease).lease_until)


@router.post("/leases/{lease}/report", summary="Report the end", responses=refusals(403, 404))
def report(services: ServicesDep, lease: LeaseDep, body: ReportIn) -> JobOut:
    """The job's own record of what was committed has the last word."""
    outcome = None if body.outcome is ReportedOutcome.NOTHING else Outcome(body.outcome)
    return JobOut.of(services.jobs.report(lease, outcome, error=body.error, result=body.result, log=body.log))
