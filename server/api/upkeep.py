"""A table's upkeep: its health, and what keeps jobs from it for a while."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.job import JobKind
from catalog.maintenance.health import HealthPart, compute_health
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}", tags=["tables"])


class LossOut(Out):
    """What one part takes from the score, of how many points, and the figure behind it."""

    part: HealthPart
    points_lost: float
    max_points: int
    detail: str


class TableHealthOut(Out):
    """100: there is nothing to do."""

    score: int
    parts: list[LossOut]


class BlockerIn(In):
    """What is to be kept from the table: jobs of these kinds, or with none named of any."""

    reason: str
    until: AwareDatetime
    kinds: list[JobKind] = []


class TableBlockerOut(Out):
    """Until when jobs are kept from a table, from whom, and why; no kinds are all of them."""

    id: UUID
    reason: str
    created_at: datetime
    until: datetime
    kinds: list[JobKind]
    set_by: str | None

    @classmethod
    def of(cls, blocker: Blocker) -> TableBlockerOut:
        """A blocker as it is shown."""
        return cls(
            id=blocker.id,
            reason=blocker.reason,
            created_at=blocker.created_at,
            until=blocker.until,
            kinds=sorted(blocker.kinds),
            set_by=blocker.set_by,
        )


@router.get("/health", summary="Score a table's health", responses=refusals(404))
def show_health(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, measure: Annotated[bool, Query()] = False
) -> TableHealthOut:
    """How far the table is from having nothing to do, and what takes the points.

    With `measure` its manifests are read too, for how evenly its partitions are filled.
    """
    outlook = services.planner.outlook(catalog, table)
    skew = services.layouts.skew(catalog, table) if measure else None
    return TableHealthOut.model_validate(compute_health(outlook.facts, outlook.now, skew=skew))


@router.get("/blockers", summary="List blockers", responses=refusals(404))
def list_blockers(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[TableBlockerOut]:
    """Those that hold now."""
    return [TableBlockerOut.of(one) for one in services.blockers.of(catalog, table)]


@router.post("/blockers", status_code=201, summary="Block a table", responses=refusals(400, 404))
def block_table(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: BlockerIn) -> TableBlockerOut:
    """No new job begins until then; a running one goes on."""
    blocker = services.blockers.block(catalog, table, reason=body.reason, until=body.until, kinds=body.kinds)
    return TableBlockerOut.of(blocker)


@router.delete("/blockers", status_code=204, summary="Unblock a table", responses=refusals(404))
def unblock_table(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, blocker: Annotated[UUID | None, Query()] = None
) -> None:
    """Lift one blocker, or all of them."""
    services.blockers.unblock(catalog, table, None if blocker is None else BlockerId(blocker))
