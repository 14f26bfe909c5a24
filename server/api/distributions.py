"""Distributions of columns: queries that the server writes, and their results (docs/columns.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request

from catalog.queries.distribution import Distribution
from catalog.queries.query import QueriedTable, QueryId
from catalog.queries.query import Query as StoredQuery
from firn.protocol.answers.distributions import ColumnDistributionOut, DistributionOut, DistributionRequest
from server.api.deps import CatalogDep, ServicesDep, TableDep, get_caller
from server.api.errors import refusals
from server.api.queries import build_query_out, get_owner

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["queries"])


@router.post(
    "/{table}/distributions",
    status_code=201,
    summary="Count a column",
    responses=refusals(400, 403, 404, 409, 503),
)
def count_column(
    services: ServicesDep, request: Request, catalog: CatalogDep, table: TableDep, body: DistributionRequest
) -> DistributionOut:
    """Count how the values of a column are distributed, by a query of the caller's over all rows of the table."""
    caller, target = get_caller(request), QueriedTable(catalog, table)

    def may_read(queried: QueriedTable) -> bool:
        return services.access.may_read(caller, queried.catalog, queried.name)

    query = services.distributions.begin(target, body.column, caller, may_read)
    return _build_out(*services.distributions.wait(target, query.id, get_owner(request), body.wait))


@router.get("/{table}/distributions/{query_id}", summary="Show a distribution", responses=refusals(400, 404, 409))
def show_distribution(
    services: ServicesDep,
    request: Request,
    catalog: CatalogDep,
    table: TableDep,
    query_id: Annotated[UUID, Path(description="query")],
    wait: Annotated[float, Query(ge=0, le=10, description="seconds to wait for its end")] = 0,
) -> DistributionOut:
    """Show a query that counts a column, and its result once it is done. `DELETE /queries/{query}` cancels it."""
    target = QueriedTable(catalog, table)
    return _build_out(*services.distributions.wait(target, QueryId(query_id), get_owner(request), wait))


def _build_out(query: StoredQuery, distribution: Distribution | None) -> DistributionOut:
    shown = None if distribution is None else ColumnDistributionOut.model_validate(asdict(distribution))
    return DistributionOut(query=build_query_out(query), distribution=shown)
