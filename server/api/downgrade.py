"""Downgrade: an upgraded table becomes a Hive table again."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from firn.protocol.answers.operations import OperationOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep
from server.api.errors import refusals
from server.api.hive import FullName
from server.api.operations import build_operation_out

router = APIRouter()


class DowngradeIn(In):
    """Options of a downgrade.

    With `wait_for_writers` the operation waits for Hive jobs that started before the last publish. With `purge` the
    server deletes Firn's own files once the retention of the dropped table ends.
    """

    wait_for_writers: bool = True
    purge: bool = False


class AwaitedDirectoryOut(Out):
    """A directory that a publish replaced at `since`. Until `until`, a Hive job from before may write to it."""

    partition: str
    location: str
    since: datetime
    until: datetime


class AwaitedWriterOut(Out):
    """A Hive job with a lock on a partition, or on the table if that is empty."""

    partition: str
    holder: str
    since: datetime | None


class DowngradePreviewOut(Out):
    """The work of a downgrade, and what blocks it. `grace_seconds` is how long it watches a superseded directory.

    `ends_after` is its earliest end with the wait for writers, and `wait` says why it waits. `directories` are some of
    the directories in grace. `writers` are Hive jobs that write now and take locks; others, such as those of Spark, are
    unknown to the metastore, so `likely_author` says whom to ask.
    """

    table: str
    partitions: int
    pending_rows: int
    differing: int
    directories_in_grace: int
    grace_until: datetime | None
    grace_seconds: int
    directories: list[AwaitedDirectoryOut]
    writers: list[AwaitedWriterOut]
    likely_author: str | None
    ends_after: datetime | None
    wait: str
    drift: str | None
    blocked: str | None


@router.get(
    "/catalogs/{catalog}/hive/{full_name}/downgrade",
    tags=["hive"],
    summary="Show what a downgrade has to do",
    responses=refusals(404, 503),
)
def preview_downgrade(services: ServicesDep, catalog: CatalogDep, full_name: FullName) -> DowngradePreviewOut:
    """Show the work of a downgrade, as far as the server knows it before the start. Changes nothing."""
    return DowngradePreviewOut.model_validate(services.hive.downgrades.preview(catalog, full_name))


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/downgrade",
    status_code=202,
    tags=["hive"],
    summary="Downgrade a table to Hive",
    responses=refusals(404, 409),
)
def downgrade(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: DowngradeIn | None = None
) -> OperationOut:
    """Publish all changes to Hive, then drop the table from the catalog. The operation tells the progress."""
    options = body or DowngradeIn()
    operation = services.hive.downgrades.start(
        catalog, full_name, wait_for_writers=options.wait_for_writers, purge=options.purge
    )
    services.hive.poke_downgrades()
    return build_operation_out(operation)
