"""Operations, commits of all tables, and the server's own health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from catalog.access.privileges import Securable, operation_target
from catalog.jobs.operation import BatchId, Operation, OperationId
from catalog.names import CatalogName
from firn.protocol.answers.operations import OperationOut
from firn.protocol.base import Out
from server.api.deps import PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.api.history_views import EventOut, build_events_page

router = APIRouter()


class TaskOut(Out):
    """A background task and the result of its last run."""

    name: str
    does: str
    every_seconds: float
    last_at: datetime | None
    last_seconds: float | None
    status: str | None
    error: str | None


class HealthOut(Out):
    """The state of this server; `leads` says whether it runs the background tasks."""

    version: str
    database: str
    leads: bool
    last_event_id: int
    tasks: list[TaskOut]


@router.get("/operations", tags=["operations"], summary="List operations, newest first")
def list_operations(
    services: ServicesDep,
    visible: VisibilityDep,
    page: PagingDep,
    catalog: Annotated[str | None, Query()] = None,
    batch: Annotated[UUID | None, Query()] = None,
    target: Annotated[str | None, Query(description="Only operations on this table, as DATABASE.TABLE.")] = None,
) -> PageOut[OperationOut]:
    """List upgrades, downgrades and imports; the operations of a batch come in the order of their execution."""
    with services.database.reading() as uow:
        within, batch_id = None if catalog is None else CatalogName(catalog), None if batch is None else BatchId(batch)
        operations = visible.page(
            lambda size, start: uow.operations.list(
                catalog=within, batch=batch_id, target=target, limit=size, cursor=start
            ),
            lambda operation: visible.readable(operation_target(operation)),
            within=Securable(within),
            limit=page.size,
            cursor=page.cursor,
        )
    return PageOut(
        items=[build_operation_out(operation) for operation in operations.items], next_cursor=operations.next_cursor
    )


@router.get("/operations/{operation_id}", tags=["operations"], summary="Show an operation", responses=refusals(404))
def show_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """Show one operation with its progress."""
    with services.database.reading() as uow:
        return build_operation_out(uow.operations.get(OperationId(operation_id)))


@router.post(
    "/operations/{operation_id}/cancel",
    tags=["operations"],
    summary="Cancel an operation",
    responses=refusals(404, 409),
)
def cancel_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """Cancel an operation. It stops at its next step and leaves nothing behind."""
    operation = services.hive.operations.cancel(OperationId(operation_id))
    services.hive.poke()
    return build_operation_out(operation)


@router.post(
    "/operations/{operation_id}/pause", tags=["operations"], summary="Pause an upgrade", responses=refusals(404, 409)
)
def pause_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """Pause an upgrade at its next step, until somebody resumes it. Other operations run first."""
    return build_operation_out(services.hive.operations.pause(OperationId(operation_id)))


@router.post(
    "/operations/{operation_id}/resume", tags=["operations"], summary="Resume an upgrade", responses=refusals(404, 409)
)
def resume_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """Resume an upgrade. It starts again when its turn comes, and reads the files again."""
    operation = services.hive.operations.resume(OperationId(operation_id))
    services.hive.poke()
    return build_operation_out(operation)


@router.get("/events", tags=["events"], summary="List commits, newest first")
def list_events(
    services: ServicesDep, visible: VisibilityDep, page: PagingDep, catalog: Annotated[str | None, Query()] = None
) -> PageOut[EventOut]:
    """List the commits of all tables, or of one catalog's tables."""
    with services.database.reading() as uow:
        within = None if catalog is None else CatalogName(catalog)
        events = visible.page(
            lambda size, start: uow.events.list(within, None, limit=size, cursor=start),
            lambda event: visible.readable(services.access.table(event.catalog, event.table)),
            within=Securable(within),
            limit=page.size,
            cursor=page.cursor,
        )
        return build_events_page(uow, events)


@router.get("/health", tags=["health"], summary="Show the server's health")
def show_health(request: Request, services: ServicesDep) -> HealthOut:
    """Show the server's version, its database and its background tasks."""
    with services.database.reading() as uow:
        last_event_id = uow.events.last_id()
    state = request.app.state
    return HealthOut(
        version=state.version,
        database=state.database_kind,
        leads=state.leads(),
        last_event_id=last_event_id,
        tasks=[_describe_task(name, task, state.driver.last.get(name)) for name, task in state.driver.tasks.items()],
    )


def _describe_task(name: str, task: Any, run: Any) -> TaskOut:
    return TaskOut(
        name=name,
        does=task.does,
        every_seconds=task.every_seconds,
        last_at=None if run is None else run.at,
        last_seconds=None if run is None else round(run.seconds, 3),
        status=None if run is None else describe_status(run.status),
        error=None if run is None else run.error,
    )


def describe_status(status: object) -> str | None:
    """Describe the report of a task for people: `12 assessed, 3 planned`. Zeros and empty values are omitted."""
    if status is None:
        return None
    if not is_dataclass(status):
        return str(status)
    reported = [(field.name.replace("_", " "), getattr(status, field.name)) for field in fields(status)]
    return ", ".join(_describe_value(name, value) for name, value in reported if value) or "nothing to do"


def _describe_value(name: str, value: object) -> str:
    if value is True:
        return name
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {text}" for key, text in value.items())
    if isinstance(value, Sequence | frozenset | set) and not isinstance(value, str):
        return _describe_count(len(value), name)
    if isinstance(value, datetime):
        return f"{name} {value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, str):
        return f"{name} {value}"
    return _describe_count(value, name) if isinstance(value, int) else f"{value} {name}"


def _describe_count(count: int, name: str) -> str:
    """`1 cluster`, `12 clusters`, `1 planned`."""
    if count == 1:
        name = f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.removesuffix("s")
    return f"{count:,} {name}"


def build_operation_out(operation: Operation) -> OperationOut:
    """Build the answer from an operation."""
    return OperationOut.model_validate(operation)
