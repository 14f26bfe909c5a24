"""Tables of the Iceberg REST catalog: plain tables, keyed tables, their stores, and pinned tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response

from catalog.errors import CommitRefused, Invalid
from catalog.history.commit import TableCommit, is_creating
from catalog.iceberg.table import keep_refs_only
from catalog.iceberg.updates import parse_updates
from catalog.jobs.leases import Lease
from catalog.keyed.alter import translate_requirements, translate_updates
from catalog.keyed.spec import BASE, KeySpec
from catalog.names import CatalogName, TableName
from catalog.scan.mode import build_planning_config
from catalog.tables.relation import RelationKind
from firn.protocol.names import join_name
from server.iceberg.clients import filter_config
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
    idempotent_request,
    no_content,
)
from server.iceberg.requests import (
    CatalogDep,
    EngineDep,
    JsonBody,
    LeaseDep,
    NamespaceDep,
    PageDep,
    ServicesDep,
    TableCall,
    TableCallDep,
    TableDep,
    VisibilityDep,
    caller_of,
    commits,
    engine_of,
    flag_in,
    is_known,
    json_body,
    lease_of,
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
from server.service.commit.commit_path import (
    CommitRequest,
    raise_unknown_after_commit,
    raise_unknown_if_unavailable,
)
from server.service.services import Services
from server.service.tables.keyed_tables import find_keyed
from server.service.tables.tables import Loaded, TableDefinition

router = APIRouter(prefix="/{catalog}")
_compressed = Compressed()
TABLE_KINDS = (RelationKind.TABLE, RelationKind.KEYED, RelationKind.BASE, RelationKind.CHANGE)


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
                hint="CREATE TABLE first, then upsert with firn.spark or INSERT INTO its base store",
            )
        return _staged(services, catalog, definition, delegation)
    name = definition.name
    if spec is not None:
        return idempotent.run(
            lambda: _created_keyed(services, catalog, definition, spec, idempotent, delegation),
            lambda locations: _made_again(services, catalog, name, locations, delegation),
        )
    return idempotent.run(
        lambda: _made(
            catalog,
            name,
            services.tables.create(catalog, definition, idempotency=idempotent.idempotency),
            delegation,
        ),
        _as_remembered(services, name, RelationKind.TABLE, lambda made: _made(catalog, name, made, delegation)),
    )


def _created_keyed(
    services: Services,
    catalog: CatalogName,
    definition: TableDefinition,
    spec: KeySpec,
    idempotent: IdempotentRequest,
    delegation: Delegation,
) -> Response:
    services.images.create(catalog, definition, spec, idempotency=idempotent.idempotency)
    return _made(catalog, definition.name, _load_image(services, catalog, definition.name), delegation)


def _made_again(
    services: Services, catalog: CatalogName, name: TableName, locations: StoredResult, delegation: Delegation
) -> Response:
    with raise_unknown_after_commit():
        made = services.images.load_again(catalog, name, locations[0])
    return _made(catalog, name, made, delegation)


def _load_image(services: Services, catalog: CatalogName, name: TableName) -> Loaded:
    """Load a keyed table after a commit that has changed it, whether or not that works."""
    with raise_unknown_after_commit():
        return services.images.load(catalog, name)


def _staged(services: Services, catalog: CatalogName, definition: TableDefinition, delegation: Delegation) -> Response:
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
    if _is_keyed(services, catalog, name):
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
    if _is_keyed(services, catalog, name) or services.keyed.pinned_table(catalog, name) is not None:
        return no_content()
    if services.images.load_pinned(catalog, name) is None:
        services.tables.check_exists(catalog, name)
    return no_content()


@dataclass(frozen=True, slots=True)
class CommitCall:
    """A request to commit, parsed by a single dependency; see TableCall."""

    table: TableCall
    body: dict[str, Any]
    lease: Lease | None
    engine: str | None
    idempotent: IdempotentRequest


async def commit_call(request: Request) -> CommitCall:
    """Parse a request to commit; marked as a commit first, so that a malformed one is refused like any commit."""
    await commits(request)
    body = await json_body(request)
    table = TableCall.of(request)
    return CommitCall(table, body, await lease_of(request), await engine_of(request), idempotent_request(request, body))


@router.post("/namespaces/{namespace}/tables/{table}")
def commit_table(call: Annotated[CommitCall, Depends(commit_call)]) -> Response:
    """Commit to one table, or complete a create transaction."""
    services, catalog, name, idempotent = call.table.services, call.table.catalog, call.table.name, call.idempotent
    change = _change(name, call.body)

    def commit() -> Response:
        if services.keyed.pinned_table(catalog, name) is not None or services.images.load_pinned(catalog, name):
            raise _pinned_refusal(name)
        if is_creating(change.requirements):
            caller = caller_of(call.table.request)
            made = services.tables.create_by_commit(
                catalog,
                change,
                idempotency=idempotent.idempotency,
                may_read=lambda: services.access.may_read(caller, catalog, name),
            )
            return _loaded(name, replace(made, config={}))
        request = _request(call, [change])
        if _commit_if_keyed(services, request):
            return _loaded(name, _load_image(services, catalog, name))
        committed = services.committer.commit(request)
        return _as_remembered(services, name)([committed[0].metadata_location])

    def answer_again(locations: StoredResult) -> Response:
        if _is_keyed(services, catalog, name):
            return _loaded(name, _load_image(services, catalog, name))
        return _as_remembered(services, name)(locations)

    return idempotent.run(commit, answer_again)


def _request(call: CommitCall, changes: Sequence[TableCommit]) -> CommitRequest:
    return CommitRequest(
        catalog=call.table.catalog,
        changes=changes,
        lease=call.lease,
        engine=call.engine,
        idempotency=call.idempotent.idempotency,
    )


def _is_keyed(services: Services, catalog: CatalogName, name: TableName) -> bool:
    located = services.database.locate(catalog, name)
    return located is not None and located.kind is RelationKind.KEYED


def _commit_if_keyed(services: Services, request: CommitRequest) -> bool:
    """Apply a commit to a keyed table: rows to its change store, all else to its base store; False for another table.

    CommitUnknown when the database does not answer: an earlier try of the same request may have been applied.
    """
    (change,) = request.changes
    with raise_unknown_if_unavailable():
        if not _is_keyed(services, request.catalog, change.name):
            return False
    if not services.image_writes.commit(request):
        services.committer.commit(replace(request, changes=[_translate(services, request.catalog, change)]))
    return True


def _translate(services: Services, catalog: CatalogName, change: TableCommit) -> TableCommit:
    """A commit to a keyed table, as one to its base store. Invalid when it changes data."""
    with raise_unknown_if_unavailable(), services.database.reading() as uow:
        relation = find_keyed(uow, catalog, change.name)
    return TableCommit(
        name=TableName(change.name.as_namespace, BASE),
        requirements=translate_requirements(relation.id, change.requirements),
        updates=translate_updates(change.name, change.updates),
    )


def _pinned_refusal(name: TableName) -> Invalid:
    """Refuse SQL that writes to a pinned state of a keyed table.

    Not a CommitFailedException, which engines answer with retries.
    """
    keyed = join_name(name.namespace)
    return Invalid(
        f"{name} is a state of the keyed table {keyed}, and cannot be changed",
        hint=f"insert rows with new keys into {keyed}.base, append changes to {keyed}.change with _op 'U' or 'D', "
        "or call firn.spark.upsert or firn.spark.delete",
    )


@router.post("/transactions/commit", status_code=204, dependencies=[Depends(commits)])
def commit_transaction(
    services: ServicesDep,
    catalog: CatalogDep,
    body: JsonBody,
    lease: LeaseDep,
    engine: EngineDep,
    idempotent: IdempotentWithBodyDep,
) -> Response:
    """Commit to several tables, all or none."""
    changes = [
        _change(name_of(change.get("identifier"), "identifier"), change) for change in objects_in(body, "table-changes")
    ]
    if not changes:
        raise Invalid("table-changes: expected at least one")
    request = CommitRequest(
        catalog=catalog, changes=changes, lease=lease, engine=engine, idempotency=idempotent.idempotency
    )
    return idempotent.run(answer_empty(lambda: _commit_all(services, request)))


def _commit_all(services: Services, request: CommitRequest) -> None:
    """Apply a transaction. Some engines send a commit on one table as a transaction; it may add rows to a keyed one."""
    if len(request.changes) == 1 and _commit_if_keyed(services, request):
        return
    with raise_unknown_if_unavailable():
        keyed = {change.name for change in request.changes if _is_keyed(services, request.catalog, change.name)}
    changes = [
        _translate(services, request.catalog, change) if change.name in keyed else change for change in request.changes
    ]
    services.committer.commit(replace(request, changes=changes))


def _change(name: TableName, body: dict[str, Any]) -> TableCommit:
    requirements: Sequence[dict[str, Any]] = objects_in(body, "requirements")
    return TableCommit(name=name, requirements=requirements, updates=parse_updates(objects_in(body, "updates")))


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
    drop = services.keyed.drop if _is_keyed(services, catalog, name) else services.tables.drop
    return idempotent.run(
        answer_empty(lambda: drop(catalog, name, purge=purge_requested, idempotency=idempotent.idempotency))
    )


@router.post("/namespaces/{namespace}/tables/{table}/unregister")
def unregister_table(services: ServicesDep, catalog: CatalogDep, name: TableDep, idempotent: IdempotentDep) -> Response:
    """Unregister a table, so that another catalog can take it over."""
    return idempotent.run(
        lambda: _loaded(name, services.tables.unregister(catalog, name, idempotency=idempotent.idempotency)),
        _as_remembered(services, name, RelationKind.TABLE),
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
        made = services.tables.register(
            catalog, name, location, overwrite=overwrite, idempotency=idempotent.idempotency
        )
        return _made(catalog, name, made, delegation)

    again = _as_remembered(services, name, RelationKind.TABLE, lambda made: _made(catalog, name, made, delegation))
    return idempotent.run(register, again)


@router.post("/tables/rename", status_code=204)
def rename_table(
    services: ServicesDep, catalog: CatalogDep, body: JsonBody, idempotent: IdempotentWithBodyDep
) -> Response:
    """Rename a table."""
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    rename = services.keyed.rename if _is_keyed(services, catalog, source) else services.tables.rename
    return idempotent.run(answer_empty(lambda: rename(catalog, source, to, idempotency=idempotent.idempotency)))


def _made(catalog: CatalogName, name: TableName, made: Loaded, delegation: Delegation) -> Response:
    """Answer with a created table, even if granting access to its files fails."""
    with raise_unknown_after_commit():
        return loaded_with_access(catalog, name, made, delegation.to(catalog, name))


def _loaded(name: TableName, loaded: Loaded) -> Response:
    etag = tag_of(name, loaded, None, "all")
    return loaded_response(loaded.metadata_location, loaded.text, etag=etag, config=filter_config(loaded.config))


def _as_remembered(
    services: Services,
    name: TableName,
    kind: RelationKind | None = None,
    answer: Callable[[Loaded], Response] | None = None,
) -> Callable[[StoredResult], Response]:
    """Load the table after a request, for its first answer and each repeated one.

    Without a kind it says nothing of the table's configuration: clients take that from loads, not from commits.
    """

    def loaded(locations: StoredResult) -> Response:
        with raise_unknown_after_commit():
            document = services.metadata.load(locations[0])
        config = {} if kind is None else build_planning_config(kind, document.parsed)
        then = Loaded(metadata_location=locations[0], text=document.text, config=config)
        return _loaded(name, then) if answer is None else answer(then)

    return loaded
