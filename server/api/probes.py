"""Whether the process lives, whether it can work, and its metrics."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from catalog.errors import Unavailable
from catalog.jobs.job import JobStatus
from server.api.work_metrics import fleet_figures, work_figures
from server.prometheus import exposition
from server.service.services import Services

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


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """Prometheus text."""
    services: Services = request.app.state.services
    with services.database.reading() as uow:
        counts = uow.jobs.counts()
        optimizers = Counter(one.group for one in uow.optimizers.list())
    jobs = {str(status): counts.get(status, 0) for status in JobStatus if status.is_active}
    more = [*work_figures(services.overview.load()), fleet_figures(services.fleet.all())]
    return Response(exposition(jobs, optimizers, more), media_type=CONTENT_TYPE_LATEST)
