"""Operations, events and the server's own health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from catalog.access.privileges import Securable, operation_target
from catalog.jobs.operation import BatchId, Operation, OperationId, OperationKind
from catalog.names import CatalogName
from firn.protocol.operations import OperationStatus
from server.api.deps import Out, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.api.history_views import EventOut, events_page

router = APIRouter()


class OperationOut(Out):
    """Long work that the server does itself; `allowed_actions` names what may be done to it now."""

    id: UUID
    kind: OperationKind
    catalog: str
    target: str
    status: OperationStatus
    outcome: str
    batch: UUID | None
    phase: str
    phase_at: datetime | None
    done: int
    total: int
    unit: str
    error: str | None
    hint: str | None
    result: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    allowed_actions: list[str]

    @classmethod
    def of(cls, operation: Operation) -> OperationOut:
        """An operation as it is shown."""
        return cls.model_validate(operation)


class TaskOut(Out):
    """A background task and how its last activation ended."""

    name: str
    does: str
    every_seconds: float
    last_at: datetime | None
    last_seconds: float | None
    status: str | None
    error: str | None


class HealthOut(Out):
    """How the server is."""

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
    target: Annotated[str | None, Query(description="Those of this table alone, as DATABASE.TABLE.")] = None,
) -> PageOut[OperationOut]:
    """Upgrades and the like; those of one batch in the order in which they are carried out."""
    with services.database.reading() as uow:
        within, of = None if catalog is None else CatalogName(catalog), None if batch is None else BatchId(batch)
        found = visible.page(
            lambda size, start: uow.operations.list(catalog=within, batch=of, target=target, limit=size, cursor=start),
            lambda one: visible.readable(operation_target(one)),
            within=Securable(within),
            limit=page.size,
            cursor=page.cursor,
        )
    return PageOut(items=[OperationOut.of(one) for one in found.items], next_cursor=found.next_cursor)


@router.get("/operations/{operation_id}", tags=["operations"], summary="Show an operation", responses=refusals(404))
def show_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """One operation, with its progress."""
    with services.database.reading() as uow:
        return OperationOut.of(uow.operations.get(OperationId(operation_id)))


@router.post(
    "/operations/{operation_id}/cancel",
    tags=["operations"],
    summary="Cancel an operation",
    responses=refusals(404, 409),
)
def cancel_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """Ask it to stop; it does at its next step and leaves nothing behind."""
    operation = services.hive.operations.cancel(OperationId(operation_id))
    services.hive.poke()
    return OperationOut.of(operation)


@router.post(
    "/operations/{operation_id}/pause", tags=["operations"], summary="Pause an upgrade", responses=refusals(404, 409)
)
def pause_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """It stops at its next step, lets others go first, and stays so until it is resumed."""
    return OperationOut.of(services.hive.operations.pause(OperationId(operation_id)))


@router.post(
    "/operations/{operation_id}/resume", tags=["operations"], summary="Resume an upgrade", responses=refusals(404, 409)
)
def resume_operation(services: ServicesDep, operation_id: UUID) -> OperationOut:
    """It begins anew when its turn comes: what it had read of files is read again."""
    operation = services.hive.operations.resume(OperationId(operation_id))
    services.hive.poke()
    return OperationOut.of(operation)


@router.get("/events", tags=["events"], summary="List commits, newest first")
def list_events(
    services: ServicesDep, visible: VisibilityDep, page: PagingDep, catalog: Annotated[str | None, Query()] = None
) -> PageOut[EventOut]:
    """Of all tables, or of one catalog's."""
    with services.database.reading() as uow:
        within = None if catalog is None else CatalogName(catalog)
        found = visible.page(
            lambda size, start: uow.events.list(within, None, limit=size, cursor=start),
            lambda event: visible.readable(services.access.table(event.catalog, event.table)),
            within=Securable(within),
            limit=page.size,
            cursor=page.cursor,
        )
    return events_page(found)


@router.get("/health", tags=["health"], summary="Show the server's health")
def show_health(request: Request, services: ServicesDep) -> HealthOut:
    """Background tasks and the database."""
    with services.database.reading() as uow:
        last = uow.events.last_id()
    state = request.app.state
    return HealthOut(
        version=state.version,
        database=state.database_kind,
        leads=state.leads(),
        last_event_id=last,
        tasks=[_task(name, task, state.driver.last.get(name)) for name, task in state.driver.tasks.items()],
    )


def _task(name: str, task: Any, run: Any) -> TaskOut:
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
    """What a task reports, for people: `planned 3, checked 12`. Zeros and empty values are left out."""
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
        return f"{name}: " + ", ".join(f"{key} {one}" for key, one in value.items())
    if isinstance(value, Sequence | frozenset | set) and not isinstance(value, str):
        return f"{name} {len(value)}"
    return f"{name} {value}"
