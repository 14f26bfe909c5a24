"""Views of a metastore, and Iceberg views that are made from them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from catalog.access.privileges import Securable
from catalog.hive.table_index import HiveTableFilter
from catalog.names import TableName
from firn.protocol.base import Out
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.service.hive.views import HiveView, HiveViewState, explain

router = APIRouter(prefix="/catalogs/{catalog}/hive/views", tags=["hive"])
FullName = Annotated[str, Path(description="DATABASE.VIEW, as Hive writes it")]


class HiveViewOut(Out):
    """A view of the metastore. `sql` is its query for Spark; without one, `reason` says what is not the same there.

    A view that waits reads the tables and views `waits_for`, which Firn does not have yet.
    """

    name: str
    state: HiveViewState
    text: str
    sql: str | None
    reason: str
    tables: list[str]
    waits_for: list[str]

    @classmethod
    def of(cls, view: HiveView) -> HiveViewOut:
        """Build the answer."""
        return cls(
            name=view.table.full_name,
            state=view.state,
            text=view.table.view_text,
            sql=view.query.sql,
            reason=explain(view),
            tables=list(view.query.tables),
            waits_for=list(view.waits_for),
        )


@router.get("", summary="List Hive views", responses=refusals(400, 404, 503))
def list_hive_views(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    database: Annotated[str | None, Query(max_length=512)] = None,
) -> PageOut[HiveViewOut]:
    """List the views of the metastore, with their queries translated to Spark SQL where that gives the same rows.

    The names come from the index. For the queries the server asks the metastore.
    """
    only = HiveTableFilter(database=database, format="view")
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        indexed = visible.page(
            lambda size, start: uow.hive.list(catalog, only, limit=size, cursor=start),
            lambda table: visible.table(catalog, TableName((table.database,), table.name)),
            within=Securable(catalog),
            limit=page.size,
            cursor=page.cursor,
        )
    views = services.hive.views.show(catalog, [table.full_name for table in indexed.items]) if indexed.items else []
    return PageOut(items=[HiveViewOut.of(view) for view in views], next_cursor=indexed.next_cursor)


@router.post("/{full_name}", summary="Create a view from a Hive view", responses=refusals(400, 404, 409, 503))
def create_hive_view(services: ServicesDep, catalog: CatalogDep, full_name: FullName) -> HiveViewOut:
    """Create an Iceberg view with the same name and rows, or replace its query if the one in Hive has changed.

    The Hive view stays as it is. A view that is as in Hive is left alone.
    """
    return HiveViewOut.of(services.hive.views.create(catalog, full_name))
