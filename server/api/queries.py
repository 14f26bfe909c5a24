"""Queries of people by the instant engine, their results, and previews of tables (docs/sql.md)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from catalog.access.privileges import PrincipalId
from catalog.queries.query import QueriedTable, QueryId
from catalog.queries.query import Query as StoredQuery
from firn.protocol.queries import (
    PreviewOut,
    QueryOut,
    QueryRequest,
    QueryRowsOut,
    QuerySettingsOut,
    ResultColumn,
    SparkQueriesOut,
)
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep, get_caller
from server.api.errors import refusals
from server.api.table_views import format_snapshot_id
from server.service.queries.previews import MOST_ROWS
from server.service.queries.results import PAGE_ROWS
from server.service.services import Services

router = APIRouter(tags=["queries"])
_ATTACHMENT = 'attachment; filename="result.{}"'
QueryDep = Annotated[UUID, Path(description="query")]


@router.post("/queries", status_code=201, summary="Run a query", responses=refusals(400, 403, 404, 409, 503))
def run_query(services: ServicesDep, request: Request, body: QueryRequest) -> QueryOut:
    """Run one SELECT over tables that the caller may read: in DuckDB's SQL, or in Spark's with the engine `spark`.

    SHOW and DESCRIBE are answered for both engines alike, from what the caller may see of the catalog.
    """
    caller, owner = get_caller(request), get_owner(request)

    def may_read(table: QueriedTable) -> bool:
        return services.access.may_read(caller, table.catalog, table.name)

    query = services.queries.submit(body, caller, may_read)
    return build_query_out(services.queries.wait(query.id, owner, body.wait))


@router.get("/queries", summary="List queries")
def list_queries(services: ServicesDep, request: Request, paging: PagingDep) -> PageOut[QueryOut]:
    """List the caller's queries, newest first."""
    page = services.queries.list_own(get_owner(request), limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[build_query_out(query) for query in page.items], next_cursor=page.next_cursor)


@router.get("/queries/settings", summary="Show the limits of queries")
def show_query_settings(services: ServicesDep) -> QuerySettingsOut:
    """Show what queries may take on this server."""
    bounds, spark = services.queries.bounds, services.queries.spark
    availability = spark.check_availability()
    return QuerySettingsOut(
        enabled=bounds.enabled,
        seconds=bounds.seconds,
        rows=bounds.limits.rows,
        memory_bytes=bounds.limits.memory_bytes,
        spark=SparkQueriesOut(
            available=bounds.enabled and availability.available,
            reason=availability.reason,
            hint=availability.hint,
            seconds=spark.bounds.seconds,
        ),
    )


@router.get("/queries/{query_id}", summary="Show a query", responses=refusals(404))
def show_query(
    services: ServicesDep,
    request: Request,
    query_id: QueryDep,
    wait: Annotated[float, Query(ge=0, le=10, description="seconds to wait for its end")] = 0,
) -> QueryOut:
    """Show the state of one of the caller's queries."""
    return build_query_out(services.queries.wait(QueryId(query_id), get_owner(request), wait))


@router.delete("/queries/{query_id}", summary="Cancel a query", responses=refusals(404))
def cancel_query(services: ServicesDep, request: Request, query_id: QueryDep) -> QueryOut:
    """Cancel one of the caller's queries; one that has ended stays as it is."""
    return build_query_out(services.queries.cancel(QueryId(query_id), get_owner(request)))


@router.get("/queries/{query_id}/rows", summary="Read rows of a result", responses=refusals(404, 409))
def read_rows(
    services: ServicesDep,
    request: Request,
    query_id: QueryDep,
    page: Annotated[int, Query(ge=0, le=10_000, description=f"pages have {PAGE_ROWS:,} rows")] = 0,
) -> QueryRowsOut:
    """Read a page of a result. Values are text, so that no program rounds them."""
    owner = get_owner(request)
    query = services.queries.get(QueryId(query_id), owner)
    rows = services.queries.read_page(query.id, owner, page)
    has_more = (page + 1) * PAGE_ROWS < query.rows
    return QueryRowsOut(
        columns=[ResultColumn(name=column.name, type=column.type) for column in query.columns],
        first_row=page * PAGE_ROWS,
        rows=rows,
        next_page=page + 1 if has_more else None,
    )


@router.get("/queries/{query_id}/csv", summary="Download a result as CSV", responses=refusals(404, 409))
def download_csv(services: ServicesDep, request: Request, query_id: QueryDep) -> Response:
    """Download the rows of a result as CSV in UTF-8; null is an empty field."""
    owner = get_owner(request)
    query = services.queries.get(QueryId(query_id), owner)
    first = services.queries.read_page(query.id, owner, 0)
    lines = _write_csv(services, query, owner, first)
    headers = {"Content-Disposition": _ATTACHMENT.format("csv")}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/queries/{query_id}/parquet", summary="Download a result as Parquet", responses=refusals(404, 409))
def download_parquet(services: ServicesDep, request: Request, query_id: QueryDep) -> Response:
    """Download the rows of a result as a Parquet file, with their types."""
    content = services.queries.read_parquet(QueryId(query_id), get_owner(request))
    headers = {"Content-Disposition": _ATTACHMENT.format("parquet")}
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)


@router.get(
    "/catalogs/{catalog}/tables/{table}/preview",
    summary="Show the first rows of a table",
    responses=refusals(400, 404, 409, 503),
)
def preview_table(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    snapshot: Annotated[str | None, Query(max_length=255, description="a snapshot, branch or tag")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="rows in the answer")] = 50,
) -> PreviewOut:
    """Show rows that a scan of the table finds first; those of a keyed table are merged. Values are text."""
    preview = services.previews.read(QueriedTable(catalog, table), snapshot=snapshot, rows=limit)
    return PreviewOut(
        snapshot_id=format_snapshot_id(preview.snapshot_id),
        columns=[ResultColumn(name=column.name, type=column.type) for column in preview.columns],
        rows=preview.rows,
        truncated=preview.truncated,
        notes=preview.notes,
    )


def get_owner(request: Request) -> PrincipalId | None:
    """The caller, whose queries are shown; None without access control."""
    caller = get_caller(request)
    return None if caller is None else caller.principal.id


def _write_csv(
    services: Services, query: StoredQuery, owner: PrincipalId | None, rows: list[list[str | None]]
) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.name for column in query.columns])
    number = 0
    while rows:
        writer.writerows(rows)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        number += 1
        rows = services.queries.read_page(query.id, owner, number)
    yield buffer.getvalue()


def build_query_out(query: StoredQuery) -> QueryOut:
    """Build the answer from a query."""
    return QueryOut(
        id=query.id,
        statement=query.statement,
        engine=query.engine,
        catalog=query.catalog,
        namespace=query.namespace,
        explain=query.explain,
        tables=[str(table) for table in query.tables],
        state=query.state,
        created_at=query.created_at,
        started_at=query.started_at,
        ended_at=query.ended_at,
        progress=query.progress,
        columns=[ResultColumn(name=column.name, type=column.type) for column in query.columns],
        rows=query.rows,
        truncated=query.truncated,
        message=query.message,
        hint=query.hint,
        notes=list(query.notes),
        result_until=query.result_until,
    )
