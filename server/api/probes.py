"""Whether the process lives, whether it can work, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from catalog.errors import Unavailable
from catalog.job import JobStatus

router = APIRouter()


@router.get("/healthz", include_in_schema=False)
def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
def readyz(request: Request) -> JSONResponse:
    """The database answers."""
    try:
        with request.app.state.services.database.reading() as uow:
            uow.now()
    except Unavailable as error:
        return JSONResponse({"status": "unavailable", "message": error.message}, 503)
    return JSONResponse({"status": "ok"})


JOBS = Gauge("firn_jobs", "Jobs by where they stand.", ["status"])
OPTIMIZERS = Gauge("firn_optimizers", "Registered optimizers by group.", ["group"])
TASK_SECONDS = Gauge("firn_task_seconds", "How long a background task's last activation took.", ["task"])
TASK_FAILED = Gauge("firn_task_failed", "Whether a background task's last activation failed.", ["task"])


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """Prometheus text; what the database knows is counted when it is asked for."""
    state = request.app.state
    with state.services.database.reading() as uow:
        counts = uow.jobs.counts()
        groups = [one.group for one in uow.optimizers.list()]
    for status in JobStatus:
        JOBS.labels(status).set(counts.get(status, 0))
    OPTIMIZERS.clear()
    for group in set(groups):
        OPTIMIZERS.labels(group).set(groups.count(group))
    for name, run in state.driver.last.items():
        TASK_SECONDS.labels(name).set(run.seconds)
        TASK_FAILED.labels(name).set(run.error is not None)
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
