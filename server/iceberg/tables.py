"""Tables of the Iceberg REST catalog: plain tables, keyed tables, their stores, and pinned tables.

Commits to them are in `commits`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Response

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.table import keep_refs_only
from catalog.keyed.spec import KeySpec
from catalog.names import CatalogName, TableName
from catalog.scan.mode import build_planning_config
from catalog.tables.relation import RelationKind
from server.iceberg.clients import is_duckdb, name_go_client
from server.iceberg.compression import Compressed, accepts_gzip
from server.iceberg.credentials import (
    Delegation,
    DelegationDep,
    access_parts,
    loaded_with_access,
    requested_delegation,
    tag_of,
)
from server.iceberg.idempotency import (
    IdempotentDep,
    IdempotentRequest,
    IdempotentWithBodyDep,
    StoredResult,
    answer_empty,
    no_content,
)
from server.iceberg.misread_vectors import refuse_misread_vectors
from server.iceberg.requests import (
    CatalogDep,
    JsonBody,
    NamespaceDep,
    PageDep,
    ServicesDep,
    TableCallDep,
    TableDep,
    VisibilityDep,
    flag_in,
    is_known,
    listed_response,
    loaded_response,
    name_of,
    not_modified,
    object_in,
    optional_text_in,
    strings_in,
    text_in,
)
from server.iceberg.table_answers import answer_again_by, answer_created, answer_loaded, is_keyed, load_image
from server.service.commit.commit_path import (
    raise_unknown_after_commit,
)
from server.service.services import Services
from server.service.tables.tables import Loaded, TableDefinition

router = APIRouter(prefix="/{catalog}")
_compressed = Compressed()
TABLE_KINDS = (RelationKind.TABLE, RelationKind.KEYED, RelationKind.BASE, RelationKind.CHANGE, RelationKind.QUARANTINE)


@router.get("/namespaces/{namespace}/tables")
def list_tables(
    services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, namespace: NamespaceDep, page: PageDep
) -> Response:
    """List the tables of a namespace."""
    return listed_response(services, visible, catalog, namespace, TABLE_KINDS, page)


@router.post("/namespaces/{namespace}/tables")
def create_table(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: NamespaceDep,
    body: JsonBody,
    delegation: DelegationDep,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Create or stage a table; the property firn.primary-key makes it a keyed table."""
    definition = TableDefinition(
        name=TableName(namespace, text_in(body, "name")),
        schema=object_in(body, "schema"),
        partition_spec=body.get("partition-spec"),
        sort_order=body.get("write-order"),
        location=optional_text_in(body, "location"),
        properties=strings_in(body, "properties"),
    )
    spec = KeySpec.from_properties(definition.properties)
    if flag_in(body, "stage-create"):
        if spec is not None:
            raise CommitRefused(
                "a keyed table cannot be created together with its data",
                hint="run CREATE TABLE first, then INSERT INTO the table, or upsert with firn.spark",
            )
        return _stage(services, catalog, definition, delegation)
    name = definition.name
    if spec is not None:
        return idempotent.run(
            lambda: _create_keyed(services, catalog, definition, spec, idempotent, delegation),
            lambda locations: _create_again(services, catalog, name, locations, delegation),
        )
    return idempotent.run(
        lambda: _create_plain(services, catalog, definition, idempotent, delegation),
        answer_again_by(
            services, name, RelationKind.TABLE, lambda table: answer_created(catalog, name, table, delegation)
        ),
    )


def _create_plain(
    services: Services,
    catalog: CatalogName,
    definition: TableDefinition,
    idempotent: IdempotentRequest,
    delegation: Delegation,
) -> Response:
    table = services.tables.create(catalog, definition, idempotency=idempotent.idempotency)
    return answer_created(catalog, definition.name, table, delegation)


def _create_keyed(
    services: Services,
    catalog: CatalogName,
    definition: TableDefinition,
    spec: KeySpec,
    idempotent: IdempotentRequest,
    delegation: Delegation,
) -> Response:
    services.images.create(catalog, definition, spec, idempotency=idempotent.idempotency)
    return answer_created(catalog, definition.name, load_image(services, catalog, definition.name), delegation)


def _create_again(
    services: Services, catalog: CatalogName, name: TableName, locations: StoredResult, delegation: Delegation
) -> Response:
    with raise_unknown_after_commit():
        table = services.images.load_again(catalog, name, locations[0])
    return answer_created(catalog, name, table, delegation)


def _stage(services: Services, catalog: CatalogName, definition: TableDefinition, delegation: Delegation) -> Response:
    metadata = services.tables.stage(catalog, definition)
    granted = delegation.to_staged(catalog, definition.name, metadata)
    config, more = access_parts(catalog, definition.name, granted)
    return loaded_response(None, orjson.dumps(metadata), config=config, more=more)


@router.get("/namespaces/{namespace}/tables/{table}")
def load_table(call: TableCallDep) -> Response:
    """Load a table's metadata, with all snapshots or those of refs; 304 when the client has it already."""
    catalog, name, snapshots = call.catalog, call.name, call.request.query_params.get("snapshots", "all")
    if snapshots not in ("all", "refs"):
        raise Invalid(f"snapshots={snapshots}: expected all or refs")
    loaded = load_any(call.services, catalog, name, refs_only=snapshots == "refs")
    if (client := name_go_client()) is not None:
        call.services.missing_columns.refuse(catalog, name, client)
    if is_duckdb():
        refuse_misread_vectors(name, loaded.text)
    granted = requested_delegation(call.request).to(catalog, name)
    etag = tag_of(name, loaded, granted, snapshots)
    if is_known(etag, call.header("if-none-match")):
        return not_modified(etag)
    answer = loaded_with_access(catalog, name, loaded, granted, snapshots=snapshots)
    keeps = granted is None  # the compressor caches its answers
    return _compressed.of(answer) if keeps and accepts_gzip(call.request) else answer


def load_any(services: Services, catalog: CatalogName, name: TableName, *, refs_only: bool = False) -> Loaded:
    """Load a stored table, the image of a keyed one, or a pinned table, which has only the snapshot of main."""
    pinned = services.keyed.pinned_table(catalog, name)
    if pinned is not None:
        location, metadata = pinned
        config = build_planning_config(RelationKind.BASE, metadata)
        return Loaded(metadata_location=location, text=orjson.dumps(metadata), config=config)
    image = services.images.load_pinned(catalog, name)
    if image is not None:
        return image
    if is_keyed(services, catalog, name):
        loaded = services.images.load(catalog, name)
        return replace(loaded, text=orjson.dumps(keep_refs_only(orjson.loads(loaded.text)))) if refs_only else loaded
    loaded = services.tables.load(catalog, name)
    if not refs_only or loaded.metadata_location is None:
        return loaded
    return replace(loaded, text=services.metadata.with_refs_only(loaded.metadata_location))


@router.head("/namespaces/{namespace}/tables/{table}", status_code=204)
def table_exists(call: TableCallDep) -> Response:
    """Check that a table exists: 204 or 404."""
    services, catalog, name = call.services, call.catalog, call.name
    if is_keyed(services, catalog, name) or services.keyed.pinned_table(catalog, name) is not None:
        return no_content()
    if services.images.load_pinned(catalog, name) is None:
        services.tables.check_exists(catalog, name)
    return no_content()


@router.delete("/namespaces/{namespace}/tables/{table}", status_code=204)
def drop_table(
    services: ServicesDep,
    catalog: CatalogDep,
    name: TableDep,
    idempotent: IdempotentDep,
    *,
    purge_requested: Annotated[bool, Query(alias="purgeRequested")] = False,
) -> Response:
    """Drop a table; with `purgeRequested` the server deletes its files when its retention ends."""
    drop = services.keyed.drop if is_keyed(services, catalog, name) else services.tables.drop
    return idempotent.run(
        answer_empty(lambda: drop(catalog, name, purge=purge_requested, idempotency=idempotent.idempotency))
    )


@router.post("/namespaces/{namespace}/tables/{table}/unregister")
def unregister_table(services: ServicesDep, catalog: CatalogDep, name: TableDep, idempotent: IdempotentDep) -> Response:
    """Unregister a table, so that another catalog can take it over."""
    return idempotent.run(
        lambda: answer_loaded(name, services.tables.unregister(catalog, name, idempotency=idempotent.idempotency)),
        answer_again_by(services, name, RelationKind.TABLE),
    )


@router.post("/namespaces/{namespace}/tables/{table}/metrics", status_code=204)
def report_metrics(services: ServicesDep, catalog: CatalogDep, name: TableDep, body: JsonBody) -> None:
    """Store a scan or commit report."""
    services.reports.take(catalog, name, body)


@router.post("/namespaces/{namespace}/register")
def register_table(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: NamespaceDep,
    body: JsonBody,
    delegation: DelegationDep,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Register a table by its metadata file."""
    name = TableName(namespace, text_in(body, "name"))
    location, overwrite = text_in(body, "metadata-location"), flag_in(body, "overwrite")

    def register() -> Response:
        table = services.tables.register(
            catalog, name, location, overwrite=overwrite, idempotency=idempotent.idempotency
        )
        return answer_created(catalog, name, table, delegation)

    again = answer_again_by(
        services, name, RelationKind.TABLE, lambda table: answer_created(catalog, name, table, delegation)
    )
    return idempotent.run(register, again)


@router.post("/tables/rename", status_code=204)
def rename_table(
    services: ServicesDep, catalog: CatalogDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Rename a table."""
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    rename = services.keyed.rename if is_keyed(services, catalog, source) else services.tables.rename
    return idempotent.run(answer_empty(lambda: rename(catalog, source, to, idempotency=idempotent.idempotency)))
