"""Namespaces of the Iceberg REST catalog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from catalog.access.privileges import Securable
from catalog.errors import NoSuchNamespace
from catalog.names import Namespace, decode_parent
from catalog.ports.page import Page
from firn.protocol.names import join_name
from server.iceberg.idempotency import IdempotentDep, IdempotentWithBodyDep, answer_empty
from server.iceberg.requests import (
    DEFAULT_PAGE,
    CatalogDep,
    JsonBody,
    NamespaceDep,
    PageDep,
    ServicesDep,
    VisibilityDep,
    json_response,
    namespace_in,
    strings_in,
    texts_in,
)

router = APIRouter(prefix="/{catalog}/namespaces")


@router.get("")
def list_namespaces(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PageDep,
    parent: Annotated[str | None, Query()] = None,
    user_agent: Annotated[str, Header()] = "",
) -> Response:
    """List the namespaces directly under `parent`, or those at the top."""
    above: Namespace = decode_parent(parent, user_agent) if parent else ()

    def listing(limit: int, cursor: str | None) -> Page[Namespace]:
        return visible.page(
            lambda size, start: services.namespaces.children(catalog, above, limit=size, cursor=start),
            lambda namespace: visible.namespace(catalog, namespace),
            within=Securable(catalog, above),
            limit=limit,
            cursor=cursor,
        )

    namespaces = listing(page.limit, page.cursor)
    names = list(namespaces.items)
    while page.wants_all and namespaces.next_cursor is not None:
        namespaces = listing(DEFAULT_PAGE, namespaces.next_cursor)
        names.extend(namespaces.items)
    return json_response({"namespaces": names, "next-page-token": namespaces.next_cursor})


@router.post("")
def create_namespace(
    services: ServicesDep, catalog: CatalogDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Create a namespace in an existing parent."""
    namespace, properties = namespace_in(body.get("namespace"), "namespace"), strings_in(body, "properties")

    def create() -> Response:
        services.namespaces.create(catalog, namespace, properties, idempotency=idempotent.idempotency)
        return json_response({"namespace": namespace, "properties": properties})

    return idempotent.run(create, json_response)


@router.get("/{namespace}")
def load_namespace(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceDep) -> Response:
    """Show the properties of a namespace, and the location of its tables."""
    return json_response(
        {"namespace": namespace, "properties": services.namespaces.engine_properties(catalog, namespace)}
    )


@router.head("/{namespace}", status_code=204)
def namespace_exists(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceDep) -> None:
    """Check that a namespace exists: 204 or 404."""
    if not services.namespaces.exists(catalog, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")


@router.delete("/{namespace}", status_code=204)
def drop_namespace(
    services: ServicesDep, catalog: CatalogDep, namespace: NamespaceDep, idempotent: IdempotentDep
) -> Response:
    """Drop an empty namespace."""
    return idempotent.run(
        answer_empty(lambda: services.namespaces.drop(catalog, namespace, idempotency=idempotent.idempotency))
    )


@router.post("/{namespace}/properties")
def change_properties(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: NamespaceDep,
    body: JsonBody,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Set and remove properties."""

    def change() -> Response:
        changed = services.namespaces.change_properties(
            catalog,
            namespace,
            updates=strings_in(body, "updates"),
            removals=texts_in(body, "removals"),
            idempotency=idempotent.idempotency,
        )
        return json_response(asdict(changed))

    return idempotent.run(change, json_response)
