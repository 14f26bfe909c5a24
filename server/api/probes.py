"""Probes of liveness and readiness, and the metrics for Prometheus."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from catalog.errors import Unavailable
from catalog.jobs.job import JobStatus
from catalog.ports.streams import StreamFilter
from server.api.pipeline_metrics import build_pipeline_figures
from server.api.stream_metrics import build_consumer_figures, build_stream_figures, count_bad_rows
from server.api.work_metrics import build_fleet_figures, build_work_figures
from server.prometheus import build_exposition
from server.service.services import Services

router = APIRouter()

MOST_STREAMS = 10_000
MOST_CONSUMERS = 1_000


@router.get("/healthz", include_in_schema=False)
def answer_healthz() -> dict[str, str]:
    """Answer that the process lives."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
def answer_readyz(request: Request) -> JSONResponse:
    """Answer whether the database responds."""
    try:
        with request.app.state.services.database.reading() as uow:
            uow.now()
    except Unavailable as error:
        return JSONResponse({"status": "unavailable", "message": error.message}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", include_in_schema=False)
def expose_metrics(request: Request) -> Response:
    """Expose the metrics as Prometheus text."""
    services: Services = request.app.state.services
    with services.database.reading() as uow:
        counts = uow.jobs.counts()
        optimizers = Counter(optimizer.group for optimizer in uow.optimizers.list())
        listed = uow.streams.list(StreamFilter(), limit=MOST_STREAMS).items
        now = uow.now()
        streams = build_stream_figures(listed, now, count_bad_rows(uow, listed))
        consumers = build_consumer_figures(uow.consumers.list_behind(limit=MOST_CONSUMERS), now)
    jobs = {str(status): counts.get(status, 0) for status in JobStatus if status.is_active}
    pipelines = build_pipeline_figures(services.pipeline_measurements.load(), now)
    fleet = build_fleet_figures(services.fleet.show_all())
    more = [*build_work_figures(services.overview.load()), fleet, *streams, *consumers, *pipelines]
    return Response(build_exposition(jobs, optimizers, more), media_type=CONTENT_TYPE_LATEST)
