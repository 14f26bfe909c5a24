"""Views of the Iceberg REST catalog: stored ones, and the view `merged` beside the stores of each keyed table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Header, Response

from catalog.errors import CommitRefused, NoSuchView
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.keyed.spec import MERGED
from catalog.names import CatalogName, TableName
from catalog.tables.relation import RelationKind
from server.iceberg.idempotency import IdempotentDep, IdempotentWithBodyDep, StoredResult, answer_empty
from server.iceberg.requests import (
    CatalogDep,
    JsonBody,
    NamespaceDep,
    PageDep,
    ServicesDep,
    ViewDep,
    VisibilityDep,
    commits,
    etag_of,
    is_known,
    json_response,
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
from server.service.commit.commit_path import raise_unknown_after_commit
from server.service.services import Services
from server.service.tables.tables import Loaded
from server.service.tables.views import ViewDefinition

router = APIRouter(prefix="/{catalog}")


@router.get("/namespaces/{namespace}/views")
def list_views(
    services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, namespace: NamespaceDep, page: PageDep
) -> Response:
    """List the views of a namespace; the namespace of a keyed table's stores has the view `merged`."""
    owner = find_owner(services, catalog, TableName(namespace, MERGED))
    if owner is None or not visible.table(catalog, owner):
        return listed_response(services, visible, catalog, namespace, (RelationKind.VIEW,), page)
    return json_response({"identifiers": [{"namespace": list(namespace), "name": MERGED}], "next-page-token": None})


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
    """Load a stored view, or that over the current stores of a keyed table; 304 when the client has it already."""
    owner = find_owner(services, catalog, name)
    if owner is not None:
        answer = _generated(services, catalog, owner)
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


def _generated(services: Services, catalog: CatalogName, owner: TableName) -> Response:
    pin, metadata = services.keyed.view(catalog, owner)
    location, text = f"{pin.relation.location}/metadata/{pin.keyed.version}.view.json", orjson.dumps(metadata)
    return loaded_response(location, text, etag=etag_of(str(owner), text.decode()))


def find_owner(services: Services, catalog: CatalogName, name: TableName) -> TableName | None:
    """The keyed table whose merged view this name is; None for any other name."""
    if name.name != MERGED or len(name.namespace) < 2:
        return None
    owner = TableName(name.namespace[:-1], name.namespace[-1])
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, owner)
    return owner if relation is not None and relation.kind is RelationKind.KEYED else None


def _refuse_generated(services: Services, catalog: CatalogName, name: TableName) -> None:
    """Raise CommitRefused for a change of a keyed table's merged view."""
    owner = find_owner(services, catalog, name)
    if owner is not None:
        raise CommitRefused(
            f"{name} is the merged view of the keyed table {owner} and cannot be changed",
            hint=f"change, rename or drop the table {owner} itself",
        )


@router.head("/namespaces/{namespace}/views/{view}", status_code=204)
def view_exists(services: ServicesDep, catalog: CatalogDep, name: ViewDep) -> None:
    """Check that a view exists: 204 or 404."""
    with services.database.reading() as uow:
        relation = uow.relations.find(catalog, name)
    is_stored = relation is not None and relation.kind is RelationKind.VIEW
    if not is_stored and find_owner(services, catalog, name) is None:
        raise NoSuchView(f"View does not exist: {name}")


@router.post("/namespaces/{namespace}/views/{view}", dependencies=[Depends(commits)])
def commit_view(
    services: ServicesDep, catalog: CatalogDep, name: ViewDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Replace or alter a stored view."""
    _refuse_generated(services, catalog, name)
    updates, requirements = parse_updates(objects_in(body, "updates")), objects_in(body, "requirements")
    change = TableCommit(name=name, requirements=requirements, updates=updates)
    return idempotent.run(
        lambda: _stored(name, services.views.commit(catalog, change, idempotency=idempotent.idempotency)),
        _as_remembered(services, name),
    )


@router.delete("/namespaces/{namespace}/views/{view}", status_code=204)
def drop_view(services: ServicesDep, catalog: CatalogDep, name: ViewDep, idempotent: IdempotentDep) -> Response:
    """Drop a view."""
    _refuse_generated(services, catalog, name)
    return idempotent.run(answer_empty(lambda: services.views.drop(catalog, name, idempotency=idempotent.idempotency)))


@router.post("/views/rename", status_code=204)
def rename_view(
    services: ServicesDep, catalog: CatalogDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Rename a view."""
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    _refuse_generated(services, catalog, source)
    return idempotent.run(
        answer_empty(lambda: services.views.rename(catalog, source, to, idempotency=idempotent.idempotency))
    )
