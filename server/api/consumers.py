"""Consumers of the changes of keyed tables."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import NonNegativeInt

from firn.protocol.answers.consumers import ConsumerOut
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.service.services import Services
from server.service.tables.consumers import ConsumerStatus

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/consumers", tags=["changes"])

ConsumerDep = Annotated[str, Path(description="consumer")]


class ConsumerIn(In):
    """Where a consumer moves: to a version or a time with its zone, by default to the newest version.

    If `expected_version` is given, the server refuses the move of a consumer that is at another version.
    """

    to: str | None = None
    expected_version: NonNegativeInt | None = None


def build_consumer_out(status: ConsumerStatus, now: datetime) -> ConsumerOut:
    """Build the answer about a consumer."""
    consumer, since = status.consumer, status.waiting_since
    return ConsumerOut(
        name=consumer.name,
        version=consumer.version,
        created_at=consumer.created_at,
        moved_at=consumer.moved_at,
        kept_until=consumer.kept_until,
        owner=consumer.owner,
        lag_versions=status.newest_version - consumer.version,
        lag_rows=status.rows,
        lag_seconds=0.0 if since is None else max(0.0, (now - since).total_seconds()),
        first_version_left=status.first_version_left,
    )


@router.get("", summary="List consumers", responses=refusals(400, 404))
def list_consumers(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[ConsumerOut]:
    """List the consumers of a keyed table's changes by name, with their lag."""
    now = _now(services)
    return [build_consumer_out(status, now) for status in services.consumers.list(catalog, table)]


@router.get("/{consumer}", summary="Show a consumer", responses=refusals(400, 404))
def show_consumer(services: ServicesDep, catalog: CatalogDep, table: TableDep, consumer: ConsumerDep) -> ConsumerOut:
    """Show the version up to which a consumer has the changes, and its lag."""
    return build_consumer_out(services.consumers.get(catalog, table, consumer), _now(services))


@router.post("/{consumer}", summary="Register or move a consumer", responses=refusals(400, 404, 409))
def move_consumer(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, consumer: ConsumerDep, body: ConsumerIn
) -> ConsumerOut:
    """Register a consumer, or move it to the version up to which it has the changes."""
    moved = services.consumers.move(catalog, table, consumer, body.to, expected=body.expected_version)
    return build_consumer_out(moved, _now(services))


@router.delete("/{consumer}", status_code=204, summary="Drop a consumer", responses=refusals(400, 404))
def drop_consumer(services: ServicesDep, catalog: CatalogDep, table: TableDep, consumer: ConsumerDep) -> None:
    """Drop a consumer: snapshot expiry keeps nothing for it any more."""
    services.consumers.drop(catalog, table, consumer)


def _now(services: Services) -> datetime:
    with services.database.reading() as uow:
        return uow.now()
