"""Whether the process lives, whether it can work, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from catalog.errors import Unavailable

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
def metrics() -> Response:
    """Prometheus text."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
