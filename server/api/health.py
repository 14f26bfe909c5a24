"""The health of a table."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from firn.protocol.answers.health import TableHealthOut
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}", tags=["tables"])


@router.get("/health", summary="Score a table's health", responses=refusals(404))
def show_health(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, measure: Annotated[bool, Query()] = False
) -> TableHealthOut:
    """Score a table's health and show what takes points.

    With `measure` the server also reads the manifests, to see how evenly the partitions are filled.
    """
    return TableHealthOut.model_validate(services.health.score(catalog, table, measure_skew=measure))
