"""Comments, owners and labels of catalogs, namespaces, tables, views and columns."""

from __future__ import annotations

from fastapi import APIRouter

from catalog.names import parse_namespace
from catalog.tables.description import DescriptionChange
from firn.protocol.answers.catalogs import CatalogOut
from firn.protocol.answers.tables import TableOut
from firn.protocol.base import Request as In
from server.api.catalogs import NamespaceOut, build_catalog_out, load_namespace_out
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.table_details import load_table_out
from server.api.views import ViewDep, ViewOut, load_view_out
from server.service.tables.descriptions import TableDescriptionChange

router = APIRouter(prefix="/catalogs/{catalog}", tags=["descriptions"])


class DescriptionIn(In):
    """A change: what is missing stays as it is, and an empty text removes the comment or the owner."""

    comment: str | None = None
    owner: str | None = None
    add_labels: list[str] = []
    remove_labels: list[str] = []

    def build_change(self) -> DescriptionChange:
        """The change; raises Invalid."""
        return DescriptionChange(
            comment=self.comment, owner=self.owner, add_labels=self.add_labels, remove_labels=self.remove_labels
        )


class ColumnDescriptionIn(In):
    """A change of one column, as in DescriptionIn."""

    comment: str | None = None
    add_labels: list[str] = []
    remove_labels: list[str] = []


class TableDescriptionIn(DescriptionIn):
    """A change of a table and of its columns by name; a nested field is `address.city`."""

    columns: dict[str, ColumnDescriptionIn] = {}

    def build_table_change(self) -> TableDescriptionChange:
        """The change; raises Invalid."""
        columns = {
            name: DescriptionChange(
                comment=column.comment, add_labels=column.add_labels, remove_labels=column.remove_labels
            )
            for name, column in self.columns.items()
        }
        return TableDescriptionChange(table=self.build_change(), columns=columns)


@router.patch("/description", summary="Describe a catalog", responses=refusals(400, 404))
def describe_catalog(services: ServicesDep, catalog: CatalogDep, body: DescriptionIn) -> CatalogOut:
    """Change the comment, the owner and the labels of a catalog."""
    services.descriptions.change_catalog(catalog, body.build_change())
    return build_catalog_out(services.namespaces.catalog(catalog))


@router.patch("/namespaces/{namespace}/description", summary="Describe a namespace", responses=refusals(400, 404))
def describe_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str, body: DescriptionIn) -> NamespaceOut:
    """Change the comment, the owner and the labels of a namespace."""
    services.descriptions.change_namespace(catalog, parse_namespace(namespace), body.build_change())
    return load_namespace_out(services, catalog, parse_namespace(namespace))


@router.patch("/tables/{table}/description", summary="Describe a table", responses=refusals(400, 404, 409))
def describe_table(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: TableDescriptionIn) -> TableOut:
    """Change the comment, the owner and the labels of a table, and comments and labels of its columns, in one commit.

    Columns that somebody else alters at the same time stay altered.
    """
    services.descriptions.change_table(catalog, table, body.build_table_change())
    return load_table_out(services, catalog, table)


@router.patch("/views/{view}/description", summary="Describe a view", responses=refusals(400, 404, 409))
def describe_view(services: ServicesDep, catalog: CatalogDep, view: ViewDep, body: DescriptionIn) -> ViewOut:
    """Change the comment, the owner and the labels of a view. Comments of its columns belong to its definition."""
    services.descriptions.change_view(catalog, view, body.build_change())
    return load_view_out(services, catalog, view)
