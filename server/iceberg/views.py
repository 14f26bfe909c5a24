"""Views of the Iceberg REST catalog: stored ones, and keyed tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Header, Response

from catalog.errors import CommitRefused, NoSuchView
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.updates import parse_updates
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, TableName
from catalog.tables.relation import RelationKind
from server.iceberg.idempotency import IdempotentDep, IdempotentWithBodyDep, StoredResult, answer_empty
from server.iceberg.requests import (
    CatalogDep,
    EngineDep,
    JsonBody,
    NamespaceDep,
    PageDep,
    ServicesDep,
    ViewDep,
    VisibilityDep,
    commits,
    etag_of,
    is_known,
    listed_response,
    loaded_response,
    name_of,
    not_modified,
    object_in,
    objects_in,
    optional_text_in,
    strings_in,
    text_in,
)
from server.service.commit.commit_path import CommitRequest, raise_unknown_after_commit
from server.service.services import Services
from server.service.tables.tables import Loaded
from server.service.tables.views import ViewDefinition

router = APIRouter(prefix="/{catalog}")
VIEW_KINDS = (RelationKind.VIEW, RelationKind.KEYED)
_PROPERTY_UPDATES = frozenset({"set-properties", "remove-properties"})


@router.get("/namespaces/{namespace}/views")
def list_views(
    services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, namespace: NamespaceDep, page: PageDep
) -> Response:
    """List the views of a namespace, including keyed tables."""
    return listed_response(services, visible, catalog, namespace, VIEW_KINDS, page)


@router.post("/namespaces/{namespace}/views")
def create_view(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: NamespaceDep,
    body: JsonBody,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Create a view."""
    definition = ViewDefinition(
        name=TableName(namespace, text_in(body, "name")),
        schema=object_in(body, "schema"),
        version=object_in(body, "view-version"),
        location=optional_text_in(body, "location"),
        properties=strings_in(body, "properties"),
    )
    return idempotent.run(
        lambda: _stored(
            definition.name, services.views.create(catalog, definition, idempotency=idempotent.idempotency)
        ),
        _as_remembered(services, definition.name),
    )


@router.post("/namespaces/{namespace}/register-view")
def register_view(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: NamespaceDep,
    body: JsonBody,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Register a view by its metadata file."""
    name, location = TableName(namespace, text_in(body, "name")), text_in(body, "metadata-location")
    return idempotent.run(
        lambda: _stored(name, services.views.register(catalog, name, location, idempotency=idempotent.idempotency)),
        _as_remembered(services, name),
    )


@router.get("/namespaces/{namespace}/views/{view}")
def load_view(
    services: ServicesDep,
    catalog: CatalogDep,
    name: ViewDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Load a stored view, or a keyed table as a view over its current stores; 304 when the client has it already."""
    if is_keyed(services, catalog, name):
        answer = _generated(services, catalog, name)
    else:
        answer = _stored(name, services.views.load(catalog, name))
    return not_modified(answer.headers["etag"]) if is_known(answer.headers["etag"], if_none_match) else answer


def _stored(name: TableName, loaded: Loaded) -> Response:
    return loaded_response(
        loaded.metadata_location, loaded.text, etag=etag_of(loaded.metadata_location or "", str(name))
    )


def _as_remembered(services: Services, name: TableName) -> Callable[[StoredResult], Response]:
    """Load the view after a request."""

    def loaded(locations: StoredResult) -> Response:
        with raise_unknown_after_commit():
            text = services.metadata.load(locations[0]).text
        return _stored(name, Loaded(metadata_location=locations[0], text=text))

    return loaded


def _generated(services: Services, catalog: CatalogName, name: TableName) -> Response:
    pin, metadata = services.keyed.view(catalog, name)
    location, text = f"{pin.relation.location}/metadata/{pin.keyed.version}.view.json", orjson.dumps(metadata)
    return loaded_response(location, text, etag=etag_of(str(name), text.decode()))


def is_keyed(services: Services, catalog: CatalogName, name: TableName) -> bool:
    """Whether the name belongs to a keyed table."""
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, name)
    return relation is not None and relation.kind is RelationKind.KEYED


@router.head("/namespaces/{namespace}/views/{view}", status_code=204)
def view_exists(services: ServicesDep, catalog: CatalogDep, name: ViewDep) -> None:
    """Check that a view exists: 204 or 404."""
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, name)
    if relation is None or relation.kind not in VIEW_KINDS:
        raise NoSuchView(f"View does not exist: {name}")


@router.post("/namespaces/{namespace}/views/{view}", dependencies=[Depends(commits)])
def commit_view(
    services: ServicesDep,
    catalog: CatalogDep,
    name: ViewDep,
    body: JsonBody,
    engine: EngineDep,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Replace or alter a stored view, or change the properties of a keyed table."""
    updates, requirements = parse_updates(objects_in(body, "updates")), objects_in(body, "requirements")
    if is_keyed(services, catalog, name):
        base = TableCommit(name=TableName(name.as_namespace, BASE), updates=_property_updates(name, updates))
        request = CommitRequest(catalog=catalog, changes=[base], engine=engine, idempotency=idempotent.idempotency)

        def commit() -> Response:
            services.committer.commit(request)
            return as_it_is([])

        def as_it_is(_said: StoredResult) -> Response:
            with raise_unknown_after_commit():
                return _generated(services, catalog, name)

        return idempotent.run(commit, as_it_is)
    change = TableCommit(name=name, requirements=requirements, updates=updates)
    return idempotent.run(
        lambda: _stored(name, services.views.commit(catalog, change, idempotency=idempotent.idempotency)),
        _as_remembered(services, name),
    )


def _property_updates(name: TableName, updates: Sequence[Json]) -> Sequence[Json]:
    """Check that a keyed table's view supports all updates; CommitRefused."""
    if any(update["action"] not in _PROPERTY_UPDATES for update in updates):
        raise CommitRefused(
            f"{name} is a keyed table: its view is generated and cannot be replaced",
            hint=f"ALTER TABLE {name}.{BASE} changes its columns",
        )
    return updates


@router.delete("/namespaces/{namespace}/views/{view}", status_code=204)
def drop_view(services: ServicesDep, catalog: CatalogDep, name: ViewDep, idempotent: IdempotentDep) -> Response:
    """Drop a view, or a keyed table with both its stores."""
    drop = services.keyed.drop if is_keyed(services, catalog, name) else services.views.drop
    return idempotent.run(answer_empty(lambda: drop(catalog, name, idempotency=idempotent.idempotency)))


@router.post("/views/rename", status_code=204)
def rename_view(
    services: ServicesDep, catalog: CatalogDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Rename a view or a keyed table."""
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    rename = services.keyed.rename if is_keyed(services, catalog, source) else services.views.rename
    return idempotent.run(answer_empty(lambda: rename(catalog, source, to, idempotency=idempotent.idempotency)))
