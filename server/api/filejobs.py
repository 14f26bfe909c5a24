"""Jobs that change a table's files and none of its rows, as people ask for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.file_layout import FEWEST_FILES
from catalog.job import JobKind
from catalog.keyed.file_tasks import RewriteStrategy
from server.api.deps import CatalogDep, In, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.jobs import JobOut
from server.api.tables import PlannedOut, run_or_preview
from server.service.filetasks import rewrite_params

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])

DryRun = Annotated[bool, Query()]


class RewriteIn(In):
    """How a rewrite that was asked for is to work; what is left out is as the table's policy says.

    `where` is an SQL condition: only files that may hold such rows are taken. `everything` takes files of any size.
    """

    strategy: RewriteStrategy | None = None
    sort_order: list[str] = []
    where: str | None = None
    everything: bool = False


@router.post("/{table}/rewrite", status_code=202, summary="Rewrite now", responses=refusals(400, 404, 409))
def rewrite_now(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: RewriteIn | None = None,
    *,
    dry_run: DryRun = False,
) -> JobOut | PlannedOut:
    """Pack small files and such with many deleted rows; with another strategy also sort their rows."""
    asked = body or RewriteIn()
    params = rewrite_params(
        strategy=asked.strategy, sort_order=asked.sort_order, where=asked.where, everything=asked.everything
    )
    return run_or_preview(services, catalog, table, JobKind.REWRITE, params, dry_run=dry_run)


@router.post("/{table}/compact", status_code=202, summary="Compact now", responses=refusals(400, 404, 409))
def compact_now(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, dry_run: DryRun = False
) -> JobOut | PlannedOut:
    """Pack the small files of a keyed table's change store."""
    params = {"min_files": str(FEWEST_FILES)}
    return run_or_preview(services, catalog, table, JobKind.COMPACT, params, dry_run=dry_run)


@router.post("/{table}/deletes", status_code=202, summary="Pack delete files now", responses=refusals(400, 404, 409))
def deletes_now(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, dry_run: DryRun = False
) -> JobOut | PlannedOut:
    """Pack delete files, and drop those that delete nothing any more."""
    params = {"min_files": str(FEWEST_FILES)}
    return run_or_preview(services, catalog, table, JobKind.DELETES, params, dry_run=dry_run)


@router.post("/{table}/manifests", status_code=202, summary="Rewrite manifests now", responses=refusals(400, 404, 409))
def manifests_now(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, dry_run: DryRun = False
) -> JobOut | PlannedOut:
    """Write the table's manifests anew: fewer, and by partition."""
    params = {"max_count": "1"}
    return run_or_preview(services, catalog, table, JobKind.MANIFESTS, params, dry_run=dry_run)
