"""Commits of the Iceberg REST catalog: to one table, to several at once, and the end of a create transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from catalog.errors import CommitUnknown, Invalid, OtherTable
from catalog.history.commit import TableCommit, is_creating
from catalog.iceberg.updates import parse_updates
from catalog.jobs.leases import Lease
from catalog.keyed.alter import translate_requirements, translate_updates
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, RelationId, TableName
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from server.iceberg.idempotency import (
    IdempotentRequest,
    IdempotentWithBodyDep,
    StoredResult,
    answer_empty,
    idempotent_request,
)
from server.iceberg.requests import (
    CatalogDep,
    EngineDep,
    JsonBody,
    LeaseDep,
    ServicesDep,
    TableCall,
    caller_of,
    commits,
    engine_of,
    json_body,
    lease_of,
    name_of,
    objects_in,
)
from server.iceberg.table_answers import answer_again_by, answer_loaded, is_keyed, load_image
from server.service.commit.commit_path import (
    CommitRequest,
    Committed,
    raise_unknown_after_commit,
    raise_unknown_if_unavailable,
)
from server.service.services import Services
from server.service.tables.keyed_tables import find_keyed

router = APIRouter(prefix="/{catalog}")


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
    change = _parse_change(name, call.body)

    def commit() -> Response:
        if services.keyed.pinned_table(catalog, name) is not None or services.images.load_pinned(catalog, name):
            raise _make_pinned_error(name)
        if is_creating(change.requirements):
            caller = caller_of(call.table.request)
            created = services.tables.create_by_commit(
                catalog,
                change,
                idempotency=idempotent.idempotency,
                may_read=lambda created_name: services.access.may_read(caller, catalog, created_name),
            )
            return answer_loaded(name, replace(created, config={}))
        committed = _commit_one(services, _request(call, [change]))
        if committed is None:
            return answer_loaded(name, load_image(services, catalog, name))
        if committed.name == name:
            return answer_again_by(services, name)([committed.metadata_location])
        return _answer_renamed(call.table, committed.relation_id, committed.metadata_location)

    def answer_again(stored: StoredResult) -> Response:
        location, *keyed_id = stored
        if keyed_id:
            return _answer_renamed(call.table, RelationId(UUID(keyed_id[0])), location)
        return answer_again_by(services, name)(stored)

    return idempotent.run(commit, answer_again)


def _answer_renamed(call: TableCall, relation_id: RelationId, location: str) -> Response:
    """Answer with the table of a repeated commit, whatever its name is now; `location` is its metadata.

    The answer to a commit on a keyed table is its newest image. CommitUnknown if the table is gone, or if the caller
    may not read it under its new name.
    """
    services, catalog, requested = call.services, call.catalog, call.name
    with raise_unknown_after_commit(), services.database.reading() as uow:
        table = uow.relations.get(relation_id)
    if table.name != requested and not services.access.may_read(caller_of(call.request), catalog, table.name):
        raise CommitUnknown("the server applied the commit; its table has another name now, which you may not read")
    if table.kind is RelationKind.KEYED:
        return answer_loaded(requested, load_image(services, catalog, table.name))
    return answer_again_by(services, requested)([location])


def _commit_one(services: Services, request: CommitRequest) -> Committed | None:
    """Apply a commit to one table; None for a keyed table, whose answer is its image.

    A request may be repeated after its table was renamed, and another table may have the name now.
    """
    try:
        if _commit_if_keyed(services, request):
            return None
    except OtherTable:
        repeated = services.committer.find_repeated(request.catalog, request.changes)
        if repeated is None:
            raise
        return repeated[0]
    return services.committer.commit(request)[0]


def _request(call: CommitCall, changes: Sequence[TableCommit]) -> CommitRequest:
    return CommitRequest(
        catalog=call.table.catalog,
        changes=changes,
        lease=_release(call.table.services, call.lease, changes),
        engine=call.engine,
        idempotency=call.idempotent.idempotency,
    )


def _release(services: Services, lease: Lease | None, changes: Sequence[TableCommit]) -> Lease | None:
    """The lease that the commit itself checks; CommitUnknown while the database does not answer."""
    with raise_unknown_if_unavailable():
        return services.pipeline_runs.release(lease, changes)


def _commit_if_keyed(services: Services, request: CommitRequest) -> bool:
    """Apply a commit to a keyed table: rows to its change store, all else to its base store; False for another table.

    CommitUnknown when the database does not answer: an earlier try of the same request may have been applied.
    """
    (change,) = request.changes
    with raise_unknown_if_unavailable():
        if not is_keyed(services, request.catalog, change.name):
            return False
    if not services.image_writes.commit(request):
        keyed, translated = _translate(services, request.catalog, change)
        services.committer.commit(replace(request, changes=[translated], keyed_id=keyed.id))
    return True


def _translate(services: Services, catalog: CatalogName, change: TableCommit) -> tuple[Relation, TableCommit]:
    """The keyed table, and a commit to it as one to its base store. Invalid when it changes data."""
    with raise_unknown_if_unavailable(), services.database.reading() as uow:
        relation = find_keyed(uow, catalog, change.name)
    return relation, TableCommit(
        name=TableName(change.name.as_namespace, BASE),
        requirements=translate_requirements(relation.id, change.requirements),
        updates=translate_updates(change.name, change.updates),
    )


def _make_pinned_error(name: TableName) -> Invalid:
    """The error for SQL that writes to a pinned state of a keyed table.

    It is no CommitFailedException: engines answer that with retries.
    """
    keyed = join_name(name.namespace)
    return Invalid(
        f"{name} is a past state of the keyed table {keyed}, and nobody can change it",
        hint=f"write to {keyed} itself, or call firn.spark.upsert or firn.spark.delete",
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
        _parse_change(name_of(change.get("identifier"), "identifier"), change)
        for change in objects_in(body, "table-changes")
    ]
    if not changes:
        raise Invalid("table-changes: expected at least one")
    request = CommitRequest(
        catalog=catalog,
        changes=changes,
        lease=_release(services, lease, changes),
        engine=engine,
        idempotency=idempotent.idempotency,
    )
    return idempotent.run(answer_empty(lambda: _commit_all(services, request)))


def _commit_all(services: Services, request: CommitRequest) -> None:
    """Apply a transaction. Some engines send a commit on one table as a transaction; it may add rows to a keyed one."""
    if len(request.changes) == 1:
        _commit_one(services, request)
        return
    with raise_unknown_if_unavailable():
        keyed = {change.name for change in request.changes if is_keyed(services, request.catalog, change.name)}
    changes = [
        _translate(services, request.catalog, change)[1] if change.name in keyed else change
        for change in request.changes
    ]
    services.committer.commit(replace(request, changes=changes))


def _parse_change(name: TableName, body: dict[str, Any]) -> TableCommit:
    requirements: Sequence[dict[str, Any]] = objects_in(body, "requirements")
    return TableCommit(name=name, requirements=requirements, updates=parse_updates(objects_in(body, "updates")))
