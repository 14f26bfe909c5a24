"""The blockers of a table, which keep jobs from it for a while."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.job import JobKind
from firn.protocol.answers.blockers import TableBlockerOut
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}", tags=["tables"])


class BlockerIn(In):
    """A blocker to be created, for jobs of these kinds, or of all kinds if the list is empty."""

    reason: str
    until: AwareDatetime
    kinds: list[JobKind] = []


@router.get("/blockers", summary="List blockers", responses=refusals(404))
def list_blockers(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[TableBlockerOut]:
    """List the current blockers of a table."""
    return [build_table_blocker_out(blocker) for blocker in services.blockers.list(catalog, table)]


@router.post("/blockers", status_code=201, summary="Block a table", responses=refusals(400, 404))
def block_table(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: BlockerIn) -> TableBlockerOut:
    """Block a table: no new job starts before `until`. A running job continues."""
    blocker = services.blockers.block(catalog, table, reason=body.reason, until=body.until, kinds=body.kinds)
    return build_table_blocker_out(blocker)


@router.delete("/blockers", status_code=204, summary="Unblock a table", responses=refusals(404))
def unblock_table(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, blocker: Annotated[UUID | None, Query()] = None
) -> None:
    """Remove one blocker, or all of them."""
    services.blockers.unblock(catalog, table, None if blocker is None else BlockerId(blocker))


def build_table_blocker_out(blocker: Blocker) -> TableBlockerOut:
    """Build the answer from a blocker."""
    return TableBlockerOut(
        id=blocker.id,
        reason=blocker.reason,
        created_at=blocker.created_at,
        until=blocker.until,
        kinds=sorted(blocker.kinds),
        set_by=blocker.set_by,
    )
