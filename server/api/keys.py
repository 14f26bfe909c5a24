"""Whether a keyed table's keys are unique, and what becomes of those that are not: jobs that people ask for."""

from __future__ import annotations

from fastapi import APIRouter

from catalog.job import JobKind
from catalog.keyed.keys_task import Keep
from server.api.deps import CatalogDep, In, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.filejobs import DryRun
from server.api.jobs import JobOut
from server.api.tables import PlannedOut, run_or_preview

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


class KeepIn(In):
    """Which row of a key stays: the one with the highest value of a column; without one, and of several such rows, that
    of the newest commit, of one commit that in the newest file, there the last one. A sequence field decides first.
    """

    highest: str | None = None


@router.post("/{table}/keys", status_code=202, summary="Count repeated keys now", responses=refusals(400, 404, 409))
def count_keys(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, dry_run: DryRun = False
) -> JobOut | PlannedOut:
    """Count the keys that occur more than once in base. Changes nothing."""
    return run_or_preview(services, catalog, table, JobKind.KEYS, {}, dry_run=dry_run)


@router.post(
    "/{table}/keys/resolve", status_code=202, summary="Make one row of each key", responses=refusals(400, 404, 409)
)
def resolve_keys(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: KeepIn, *, dry_run: DryRun = False
) -> JobOut | PlannedOut:
    """Count as above, then delete the rows that are too many from base, in one commit."""
    return run_or_preview(services, catalog, table, JobKind.KEYS, Keep(body.highest).as_params(), dry_run=dry_run)
