"""Leases of queries: how optimizers get statements of people, send the rows, and report the ends."""

from __future__ import annotations

import threading
import time
from typing import Annotated

from anyio import from_thread
from fastapi import APIRouter, Depends, Path, Request, Response

from catalog.queries.query import SILENCE, QueryLease
from firn.protocol import query_leases as protocol
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.queries.spark_queries import HEARTBEAT, LeasedQuery

router = APIRouter(prefix="/query-leases", tags=["optimizers"])

POLL_SECONDS = 0.2


async def parse_query_lease(lease: Annotated[str, Path(description="QUERY.TOKEN")]) -> QueryLease:
    """Parse the lease of the path."""
    return QueryLease.parse(lease)


LeaseDep = Annotated[QueryLease, Depends(parse_query_lease)]


@router.post(
    "",
    response_model=protocol.QueryLease,
    summary="Take a query",
    responses={204: {"description": "no query waits"}, **refusals(404, 409)},
)
def take_query(
    request: Request, services: ServicesDep, body: protocol.QueryLeaseRequest
) -> protocol.QueryLease | Response:
    """Lease the query that waits longest to the optimizer, or wait up to `wait_seconds` for one."""
    optimizer = services.optimizers.record_poll(body.optimizer_id, body.memory)
    waiters: threading.Semaphore = request.app.state.waiters
    waits = body.wait_seconds > 0 and waiters.acquire(blocking=False)
    spark = services.queries.spark
    try:
        deadline = time.monotonic() + (body.wait_seconds if waits else 0)
        while optimizer.draining or not spark.has_work():
            if time.monotonic() >= deadline or request.app.state.stopping.is_set():
                return Response(status_code=204)
            time.sleep(POLL_SECONDS)
    finally:
        if waits:
            waiters.release()
    if from_thread.run(request.is_disconnected):  # the optimizer died while it waited
        return Response(status_code=204)
    leased = spark.take(body.optimizer_id)
    return Response(status_code=204) if leased is None else _build_lease(services, leased)


@router.put("/{lease}", status_code=204, summary="Keep a query's lease alive", responses=refusals(403))
def renew_query_lease(services: ServicesDep, lease: LeaseDep, body: protocol.QueryHeartbeat) -> None:
    """Extend a lease. 403 says that it has ended, also because somebody canceled the query."""
    services.queries.spark.beat(lease, body)


@router.post(
    "/{lease}/locations",
    status_code=204,
    summary="Check whether a query may open files",
    responses=refusals(400, 403),
)
def check_query_locations(services: ServicesDep, lease: LeaseDep, body: protocol.QueryLocationsRequest) -> None:
    """Check files that a table of the query names. 400 names the first one that the query may not open."""
    services.queries.spark.check_locations(lease, body.view, body.locations)


@router.put("/{lease}/parts", status_code=204, summary="Store rows of a query", responses=refusals(400, 403))
def put_query_part(services: ServicesDep, lease: LeaseDep, body: protocol.QueryPartRequest) -> None:
    """Store a part of the result. It may be sent again."""
    services.queries.spark.put_part(lease, body)


@router.post("/{lease}/report", status_code=204, summary="Report the end of a query", responses=refusals(403))
def report_query(services: ServicesDep, lease: LeaseDep, body: protocol.QueryReport) -> None:
    """Report the end of a query, or hand it back because the optimizer stops."""
    services.queries.spark.report(lease, body)


def _build_lease(services: ServicesDep, leased: LeasedQuery) -> protocol.QueryLease:
    query, bounds = leased.query, services.queries.spark.bounds
    return protocol.QueryLease(
        lease=str(leased.lease),
        lease_seconds=SILENCE.total_seconds(),
        heartbeat_seconds=HEARTBEAT.total_seconds(),
        query_id=str(query.id),
        statement=leased.statement.sql,
        explain=query.explain,
        explain_mode=leased.statement.explain_mode,
        user=leased.user,
        tables=list(leased.tables),
        rows=bounds.rows if query.spark_request is None else query.spark_request.rows,
        result_bytes=bounds.result_bytes,
        delegation=list(leased.delegation),
    )
