"""Streams: what brings records into tables, for people; and the leases by which optimizers run them."""

from __future__ import annotations

import threading
import time
from typing import Annotated
from uuid import UUID

from anyio import from_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from catalog.access.privileges import Securable
from catalog.commits.positions import NO_POSITION
from catalog.jobs.stream import StreamId, StreamLease
from catalog.names import CatalogName, TableName
from catalog.ports.streams import StreamFilter
from firn.protocol import streams as protocol
from firn.protocol.answers.jobs import LogLine
from firn.protocol.answers.streams import StreamAttemptOut, StreamOut
from firn.protocol.streams import StreamStatus
from server.api.deps import PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.service.streams.stream_leases import LeasedStream
from server.service.streams.streams import StreamView

router = APIRouter(tags=["streams"])

POLL_SECONDS = 0.5


async def parse_stream_filter(
    catalog: Annotated[str | None, Query()] = None,
    table: Annotated[str | None, Query(description="NAMESPACE.TABLE")] = None,
    status: Annotated[list[StreamStatus] | None, Query()] = None,
    group: Annotated[str | None, Query()] = None,
    search: Annotated[str | None, Query(description="a part of a table's full name")] = None,
) -> StreamFilter:
    """Parse the filter of a list of streams."""
    return StreamFilter(
        catalog=None if catalog is None else CatalogName(catalog),
        table=None if table is None else TableName.parse(table),
        statuses=status or (),
        group=group,
        search=search,
    )


async def parse_stream_lease(lease: Annotated[str, Path(description="STREAM.ATTEMPT.TOKEN")]) -> StreamLease:
    """Parse the lease of the path."""
    return StreamLease.parse(lease)


LeaseDep = Annotated[StreamLease, Depends(parse_stream_lease)]


@router.get("/streams", summary="List streams")
def list_streams(
    services: ServicesDep,
    visible: VisibilityDep,
    page: PagingDep,
    only: Annotated[StreamFilter, Depends(parse_stream_filter)],
) -> PageOut[StreamOut]:
    """List all streams, or those that the filters select, by catalog and table."""
    streams = visible.page(
        lambda size, start: services.streams.list(only, limit=size, cursor=start),
        lambda named: visible.readable(Securable.of(named.stream.catalog, named.table)),
        within=Securable(only.catalog),
        limit=page.size,
        cursor=page.cursor,
    )
    views = services.streams.describe(streams.items)
    return PageOut(items=[build_stream_out(view) for view in views], next_cursor=streams.next_cursor)


@router.get("/streams/{stream_id}", summary="Show a stream", responses=refusals(404))
def show_stream(services: ServicesDep, stream_id: UUID) -> StreamOut:
    """Show one stream."""
    return build_stream_out(services.streams.get(StreamId(stream_id)))


@router.get("/streams/{stream_id}/logs", summary="Show a stream's log", responses=refusals(404))
def show_stream_log(services: ServicesDep, stream_id: UUID) -> list[LogLine]:
    """Show the newest log lines of its attempts, oldest first."""
    return [LogLine(at=at, line=line) for at, line in services.streams.read_log(StreamId(stream_id))]


@router.post("/streams/{stream_id}/pause", summary="Pause a stream", responses=refusals(404))
def pause_stream(services: ServicesDep, stream_id: UUID) -> StreamOut:
    """Pause a stream. After the answer it commits nothing more, until somebody resumes it."""
    return build_stream_out(services.streams.pause(StreamId(stream_id)))


@router.post("/streams/{stream_id}/resume", summary="Resume a stream", responses=refusals(404, 409))
def resume_stream(services: ServicesDep, stream_id: UUID) -> StreamOut:
    """Let a paused stream go on from the table's position. 409 for a stopped one, which needs a restart."""
    return build_stream_out(services.streams.resume(StreamId(stream_id)))


@router.post("/streams/{stream_id}/restart", summary="Restart a stream", responses=refusals(404, 409))
def restart_stream(services: ServicesDep, stream_id: UUID) -> StreamOut:
    """Begin a new attempt at once, also of a stopped stream. 409 for a paused one."""
    return build_stream_out(services.streams.restart(StreamId(stream_id)))


@router.post(
    "/stream-leases",
    response_model=protocol.StreamLease,
    summary="Take a stream",
    responses={204: {"description": "no stream waits"}, **refusals(404, 409)},
)
def take_stream(
    request: Request, services: ServicesDep, body: protocol.StreamLeaseRequest
) -> protocol.StreamLease | Response:
    """Lease a waiting stream of its group to the optimizer, or wait up to `wait_seconds` for one.

    The answer has the password of the table's connection to Kafka, which the server gives to nobody else.
    """
    optimizer = services.optimizers.record_poll(body.optimizer_id, body.memory)
    waiters: threading.Semaphore = request.app.state.waiters
    waits = body.wait_seconds > 0 and waiters.acquire(blocking=False)
    try:
        deadline = time.monotonic() + (body.wait_seconds if waits else 0)
        while optimizer.draining or not services.stream_leases.has_work(optimizer.group):
            if time.monotonic() >= deadline or request.app.state.stopping.is_set():
                return Response(status_code=204)
            time.sleep(POLL_SECONDS)
    finally:
        if waits:
            waiters.release()
    if from_thread.run(request.is_disconnected):  # the optimizer died while it waited
        return Response(status_code=204)
    leased = services.stream_leases.take(body.optimizer_id)
    return Response(status_code=204) if leased is None else _build_lease(services, leased)


@router.put("/stream-leases/{lease}", summary="Keep a stream's lease alive", responses=refusals(403, 404))
def renew_stream_lease(
    services: ServicesDep, lease: LeaseDep, body: protocol.StreamHeartbeat
) -> protocol.StreamHeartbeatAnswer:
    """Extend a lease. 403 says that it has ended: the optimizer must stop at once."""
    return protocol.StreamHeartbeatAnswer(lease_until=services.stream_leases.beat(lease, body).lease_until)


@router.post("/stream-leases/{lease}/report", status_code=204, summary="End a stream's lease")
def report_stream(services: ServicesDep, lease: LeaseDep, body: protocol.StreamReport) -> None:
    """Report the end of an attempt, its reason, and whether a user has to act before the next one."""
    services.stream_leases.report(lease, body)


def _build_lease(services: ServicesDep, leased: LeasedStream) -> protocol.StreamLease:
    times, stream, writer = services.jobs.times, leased.stream, leased.writer
    return protocol.StreamLease(
        lease=str(leased.lease),
        lease_seconds=times.lasts.total_seconds(),
        heartbeat_seconds=times.beat.total_seconds(),
        stream_id=str(stream.id),
        attempt=stream.attempt,
        kind=stream.kind,
        catalog=stream.catalog,
        table=str(leased.table),
        namespace=list(leased.table.namespace),
        name=leased.table.name,
        writer=writer.name,
        writer_epoch=writer.epoch,
        position=None if writer.position == NO_POSITION else writer.position,
        password=leased.password,
        delegation=[str(mode) for mode in leased.delegation],
    )


def build_stream_out(view: StreamView) -> StreamOut:
    """Build the answer about a stream."""
    stream, settings = view.stream, view.settings
    same = ("id", "catalog", "kind", "status", "reason", "remedy", "group", "lag_rows", "rows_per_second")
    more = ("measured_at", "attempt", "failures", "owner", "leased_at", "lease_until", "created_at", "changed_at")
    return StreamOut(
        **{name: getattr(stream, name) for name in (*same, *more)},
        table=view.table,
        topic=None if settings is None else settings.topic,
        connection=None if settings is None else settings.connection,
        position=view.position,
        lag_seconds=stream.lag_seconds(view.at),
        last_commit_at=view.last_commit_at,
        max_lag_seconds=None if settings is None else settings.max_lag.total_seconds(),
        retry_at=stream.retry_at if stream.retry_at > view.at else None,
        attempts=[StreamAttemptOut.model_validate(attempt, from_attributes=True) for attempt in stream.attempts],
        allowed_actions=stream.allowed_actions,
    )
