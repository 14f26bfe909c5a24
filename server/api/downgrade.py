"""Giving a table back to Hive."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep
from server.api.errors import refusals
from server.api.hive import FullName
from server.api.operations import OperationOut

router = APIRouter()


class DowngradeIn(In):
    """How a table is to be given back.

    With `wait_for_writers` the operation waits for Hive jobs that started before the last publish; with
    `purge` Firn's own files are deleted when the dropped table is kept no longer.
    """

    wait_for_writers: bool = True
    purge: bool = False


class DowngradePreviewOut(Out):
    """What there is to do before a table is Hive's alone."""

    table: str
    partitions: int
    pending_rows: int
    differing: int
    directories_in_grace: int
    grace_until: datetime | None
    drift: str | None
    blocked: str | None


@router.get(
    "/catalogs/{catalog}/hive/{full_name}/downgrade",
    tags=["hive"],
    summary="Show what a downgrade has to do",
    responses=refusals(404, 503),
)
def left_to_do(services: ServicesDep, catalog: CatalogDep, full_name: FullName) -> DowngradePreviewOut:
    """As far as it can be known before; changes nothing."""
    return DowngradePreviewOut.model_validate(services.hive.downgrades.left_to_do(catalog, full_name))


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/downgrade",
    status_code=202,
    tags=["hive"],
    summary="Give a table back to Hive",
    responses=refusals(404, 409),
)
def downgrade(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: DowngradeIn | None = None
) -> OperationOut:
    """Hive gets everything that was changed here, and the table is dropped here; look at the operation for progress."""
    how = body or DowngradeIn()
    operation = services.hive.downgrades.start(
        catalog, full_name, wait_for_writers=how.wait_for_writers, purge=how.purge
    )
    services.hive.poke_downgrades()
    return OperationOut.of(operation)
