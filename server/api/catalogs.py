"""Catalogs and their namespaces."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.access.privileges import Securable
from catalog.names import CatalogName, Namespace, parse_namespace
from catalog.tables.relation import Catalog
from firn.protocol.answers.catalogs import CatalogOut, MetastoreDownOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from firn.protocol.descriptions import DescriptionOut
from firn.protocol.names import join_name
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.description_views import build_description_out
from server.api.errors import refusals
from server.service.services import Services

router = APIRouter(prefix="/catalogs", tags=["catalogs"])


class CatalogIn(In):
    """A catalog to be created."""

    name: str
    warehouse: str
    metastore: str | None = None
    properties: dict[str, str] = {}


class MisplacedOut(Out):
    """A table that breaks the rule for the locations of tables and their files, and what to do about it."""

    table: str
    problem: str
    advice: str


class PositionProblemOut(Out):
    """A writer whose stored position contradicts its table, and what to do about it."""

    table: str
    writer: str
    problem: str
    advice: str


class CatalogPropertiesIn(In):
    """Properties to set and to remove."""

    set: dict[str, str] = {}
    remove: list[str] = []


class NamespaceIn(In):
    """A namespace to be created, with its parents."""

    name: str
    properties: dict[str, str] = {}


class NamespaceOut(Out):
    """A namespace."""

    name: str
    description: DescriptionOut
    properties: dict[str, str]


@router.get("", summary="List catalogs")
def list_catalogs(services: ServicesDep, visible: VisibilityDep) -> list[CatalogOut]:
    """List the catalogs that the caller may see."""
    return [build_catalog_out(catalog) for catalog in services.namespaces.catalogs() if visible.catalog(catalog.name)]


@router.post("", status_code=201, summary="Create a catalog", responses=refusals(400, 409))
def create_catalog(services: ServicesDep, body: CatalogIn) -> CatalogOut:
    """Create a catalog over a warehouse, optionally linked to a metastore."""
    return build_catalog_out(
        services.namespaces.create_catalog(body.name, body.warehouse, body.metastore, body.properties)
    )


@router.get("/{catalog}", summary="Show a catalog", responses=refusals(404))
def show_catalog(services: ServicesDep, catalog: CatalogDep) -> CatalogOut:
    """Show one catalog."""
    return build_catalog_out(services.namespaces.catalog(catalog))


@router.delete("/{catalog}", status_code=204, summary="Drop a catalog", responses=refusals(404, 409))
def drop_catalog(
    services: ServicesDep, catalog: CatalogDep, *, forget_dropped: Annotated[bool, Query()] = False
) -> None:
    """Drop an empty catalog; its warehouse stays.

    The server refuses while the catalog keeps dropped tables, unless `forget_dropped` gives these up.
    """
    services.namespaces.drop_catalog(catalog, forget_dropped=forget_dropped)


@router.patch("/{catalog}/properties", summary="Change a catalog's properties", responses=refusals(400, 404))
def change_catalog_properties(services: ServicesDep, catalog: CatalogDep, body: CatalogPropertiesIn) -> CatalogOut:
    """Set and remove properties, such as `firn.drop.retention`. Tables dropped before keep their retention."""
    changed = services.namespaces.change_catalog_properties(catalog, updates=body.set, removals=body.remove)
    return build_catalog_out(changed)


@router.get("/{catalog}/namespaces", summary="List namespaces", responses=refusals(404))
def list_namespaces(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    parent: Annotated[str | None, Query()] = None,
) -> PageOut[NamespaceOut]:
    """List the namespaces directly under `parent`, or those at the top."""
    parent_namespace: Namespace = parse_namespace(parent) if parent else ()
    namespaces = visible.page(
        lambda size, start: services.namespaces.children(catalog, parent_namespace, limit=size, cursor=start),
        lambda namespace: visible.namespace(catalog, namespace),
        within=Securable(catalog, parent_namespace),
        limit=page.size,
        cursor=page.cursor,
    )
    items = [load_namespace_out(services, catalog, namespace) for namespace in namespaces.items]
    return PageOut(items=items, next_cursor=namespaces.next_cursor)


@router.post("/{catalog}/namespaces", status_code=201, summary="Create a namespace", responses=refusals(404, 409))
def create_namespace(services: ServicesDep, catalog: CatalogDep, body: NamespaceIn) -> NamespaceOut:
    """Create a namespace, and its parents if they do not exist."""
    namespace = parse_namespace(body.name)
    if len(namespace) > 1:
        services.namespaces.ensure(catalog, namespace[:-1])
    services.namespaces.create(catalog, namespace, body.properties)
    return _build_namespace_out(namespace, body.properties)


@router.get("/{catalog}/namespaces/{namespace}", summary="Show a namespace", responses=refusals(404))
def show_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str) -> NamespaceOut:
    """Show one namespace."""
    return load_namespace_out(services, catalog, parse_namespace(namespace))


@router.get("/{catalog}/misplaced", summary="List tables whose locations break the rule", responses=refusals(404))
def list_misplaced(services: ServicesDep, catalog: CatalogDep, page: PagingDep) -> PageOut[MisplacedOut]:
    """List misplaced tables. `limit` counts the tables that the server checks, so an empty page may have successors.

    The server reads only metadata files.
    """
    misplaced = services.misplaced.list(catalog, limit=page.size, cursor=page.cursor)
    return PageOut(
        items=[MisplacedOut.model_validate(table) for table in misplaced.items], next_cursor=misplaced.next_cursor
    )


@router.get("/{catalog}/positions", summary="List writers with wrong positions", responses=refusals(404))
def list_position_problems(services: ServicesDep, catalog: CatalogDep, page: PagingDep) -> PageOut[PositionProblemOut]:
    """List writers whose stored position contradicts the snapshots of their table.

    `limit` counts the tables that the server checks, so an empty page may have successors. The server reads only
    metadata files.
    """
    problems = services.writers.list_problems(catalog, limit=page.size, cursor=page.cursor)
    return PageOut(
        items=[PositionProblemOut.model_validate(problem) for problem in problems.items],
        next_cursor=problems.next_cursor,
    )


def load_namespace_out(services: Services, catalog: CatalogName, namespace: Namespace) -> NamespaceOut:
    """Load a namespace; raises NoSuchNamespace."""
    return _build_namespace_out(namespace, services.namespaces.properties(catalog, namespace))


def _build_namespace_out(namespace: Namespace, properties: dict[str, str]) -> NamespaceOut:
    return NamespaceOut(name=join_name(namespace), description=build_description_out(properties), properties=properties)


def build_catalog_out(catalog: Catalog) -> CatalogOut:
    """A catalog as it is shown."""
    return CatalogOut(
        name=catalog.name,
        warehouse=catalog.warehouse,
        metastore=catalog.metastore_uri,
        metastore_down=None
        if catalog.metastore_down is None
        else MetastoreDownOut.model_validate(catalog.metastore_down),
        description=build_description_out(catalog.properties),
        properties=catalog.properties,
        created_at=catalog.created_at,
    )
