"""Views of the Iceberg REST catalog: stored ones, and keyed tables."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Depends, Response

from catalog.commit import Change
from catalog.errors import CommitRefused, NoSuchView
from catalog.iceberg.updates import parsed_updates
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, TableName
from catalog.relation import RelationKind
from server.iceberg.wire import (
    DEFAULT_PAGE,
    CatalogDep,
    EngineDep,
    JsonBody,
    NamespaceDep,
    PageDep,
    ServicesDep,
    ViewDep,
    commits,
    identifier,
    json_response,
    loaded_response,
    name_of,
    object_in,
    objects_in,
    optional_text_in,
    strings_in,
    text_in,
)
from server.service.commit import CommitRequest, reading_back
from server.service.services import Services
from server.service.views import ViewDefinition

router = APIRouter(prefix="/{catalog}")
VIEW_KINDS = (RelationKind.VIEW, RelationKind.KEYED)
_PROPERTY_UPDATES = frozenset({"set-properties", "remove-properties"})


@router.get("/namespaces/{namespace}/views")
def list_views(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceDep, page: PageDep) -> Response:
    """The views of a namespace, keyed tables among them."""
    found = services.views.list(catalog, namespace, VIEW_KINDS, limit=page.limit, cursor=page.cursor)
    listed = list(found.items)
    while page.wants_all and found.next_cursor is not None:
        found = services.views.list(catalog, namespace, VIEW_KINDS, limit=DEFAULT_PAGE, cursor=found.next_cursor)
        listed.extend(found.items)
    return json_response(
        {"identifiers": [identifier(one.name) for one in listed], "next-page-token": found.next_cursor}
    )


@router.post("/namespaces/{namespace}/views")
def create_view(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceDep, body: JsonBody) -> Response:
    """Create a view."""
    definition = ViewDefinition(
        name=TableName(namespace, text_in(body, "name")),
        schema=object_in(body, "schema"),
        version=object_in(body, "view-version"),
        location=optional_text_in(body, "location"),
        properties=strings_in(body, "properties"),
    )
    loaded = services.views.create(catalog, definition)
    return loaded_response(loaded.metadata_location, loaded.text)


@router.get("/namespaces/{namespace}/views/{view}")
def load_view(services: ServicesDep, catalog: CatalogDep, name: ViewDep) -> Response:
    """A stored view, or a keyed table as a view over its stores as they are at this moment."""
    if is_keyed(services, catalog, name):
        return _generated(services, catalog, name)
    loaded = services.views.load(catalog, name)
    return loaded_response(loaded.metadata_location, loaded.text)


def _generated(services: Services, catalog: CatalogName, name: TableName) -> Response:
    pin, metadata = services.keyed.view(catalog, name)
    return loaded_response(f"{pin.relation.location}/metadata/{pin.keyed.version}.view.json", orjson.dumps(metadata))


def is_keyed(services: Services, catalog: CatalogName, name: TableName) -> bool:
    """Whether the name is a keyed table's."""
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, name)
    return relation is not None and relation.kind is RelationKind.KEYED


@router.head("/namespaces/{namespace}/views/{view}", status_code=204)
def view_exists(services: ServicesDep, catalog: CatalogDep, name: ViewDep) -> None:
    """204 or 404."""
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, name)
    if relation is None or relation.kind not in VIEW_KINDS:
        raise NoSuchView(f"View does not exist: {name}")


@router.post("/namespaces/{namespace}/views/{view}", dependencies=[Depends(commits)])
def commit_view(
    services: ServicesDep, catalog: CatalogDep, name: ViewDep, body: JsonBody, engine: EngineDep
) -> Response:
    """Replace or alter a stored view; of a keyed table, change the properties."""
    updates, requirements = parsed_updates(objects_in(body, "updates")), objects_in(body, "requirements")
    if not is_keyed(services, catalog, name):
        loaded = services.views.commit(catalog, name, requirements, updates)
        return loaded_response(loaded.metadata_location, loaded.text)
    if any(update["action"] not in _PROPERTY_UPDATES for update in updates):
        raise CommitRefused(
            f"{name} is a keyed table: its view is generated and cannot be replaced",
            hint=f"ALTER TABLE {name}.{BASE} changes its columns",
        )
    change = Change(name=TableName(name.as_namespace, BASE), updates=updates)
    services.committer.commit(CommitRequest(catalog=catalog, changes=[change], engine=engine))
    with reading_back():
        return _generated(services, catalog, name)


@router.delete("/namespaces/{namespace}/views/{view}", status_code=204)
def drop_view(services: ServicesDep, catalog: CatalogDep, name: ViewDep) -> None:
    """Drop a view, or a keyed table with both its stores."""
    if is_keyed(services, catalog, name):
        services.keyed.drop(catalog, name)
    else:
        services.views.drop(catalog, name)


@router.post("/views/rename", status_code=204)
def rename_view(services: ServicesDep, catalog: CatalogDep, body: JsonBody) -> None:
    """Give a view or a keyed table another name."""
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    if is_keyed(services, catalog, source):
        services.keyed.rename(catalog, source, to)
    else:
        services.views.rename(catalog, source, to)
