"""Tables that exist already in a warehouse or another catalog: registered one by one or imported in bulk."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from catalog.errors import Conflict, Invalid, LocationRefused
from catalog.imports.entry import Entry
from catalog.imports.import_rules import ImportAction, ImportRules, find_warnings
from catalog.imports.spec import ImportSpec, Secrets
from catalog.jobs.operation import OperationId
from catalog.names import parse_namespace
from catalog.tables.relation import RelationKind
from firn.protocol.answers.imports import EntryOut
from firn.protocol.answers.operations import OperationOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from firn.protocol.imports import EntryState, ImportRequest, reveal_secret
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.operations import build_operation_out

router = APIRouter(prefix="/catalogs/{catalog}", tags=["imports"])


class RegisterIn(In):
    """A table, by its metadata file. `overwrite` replaces another table of the same name, whose files stay."""

    metadata_location: str
    overwrite: bool = False
    dry_run: bool = False


class RegisteredTableOut(Out):
    """The result: `registered`, `ready` (in a dry run), or `there` if the catalog has the table already."""

    table: str
    state: EntryState
    table_uuid: str
    location: str
    metadata_location: str
    reason: str | None
    warnings: list[str]


@router.post("/tables/{table}/register", summary="Register a table", responses=refusals(400, 404, 409, 503))
def register_table(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: RegisterIn) -> RegisteredTableOut:
    """Register a table by its current metadata file. The server creates its namespace if it does not exist.

    If the table is registered with this file already, nothing changes.  Stop all writes through the other catalog
    first: two catalogs that commit to one table lose data.
    """
    registrar, rules = services.imports.registrar, ImportRules(overwrite=body.overwrite)
    candidate = registrar.read(catalog, table, body.metadata_location)
    if candidate.kind is not RelationKind.TABLE:
        raise Invalid(f"{body.metadata_location} is the metadata of a view, not of a table")
    if body.dry_run:
        _, verdict = registrar.judged(catalog, table, candidate, rules)
    else:
        services.namespaces.ensure(catalog, table.namespace)
        verdict = registrar.register(catalog, table, candidate, rules)
    if verdict.is_misplaced:
        raise LocationRefused(verdict.reason or "", hint=verdict.hint)
    if verdict.state.needs_a_person:
        raise Conflict(f"{table} cannot be registered: {verdict.reason}", hint=verdict.hint)
    return RegisteredTableOut(
        table=str(table),
        state=EntryState.READY if body.dry_run and verdict.act is not ImportAction.NOTHING else verdict.state,
        table_uuid=candidate.header.uuid,
        location=candidate.header.location,
        metadata_location=candidate.metadata_location,
        reason=verdict.reason,
        warnings=list(find_warnings(candidate, services.namespaces.catalog(catalog).warehouse)),
    )


@router.post("/imports", status_code=202, summary="Import tables", responses=refusals(400, 404, 409))
def start_import(services: ServicesDep, catalog: CatalogDep, body: ImportRequest) -> OperationOut:
    """Start an import. The operation tells the progress and counts, `entries` the result for each table."""
    return build_operation_out(services.imports.start(catalog, _make_spec(body), _make_secrets(body)))


@router.get("/imports/{operation_id}/entries", summary="List the entries of an import", responses=refusals(404))
def list_entries(
    services: ServicesDep,
    catalog: CatalogDep,
    operation_id: UUID,
    page: PagingDep,
    state: Annotated[list[EntryState] | None, Query()] = None,
) -> PageOut[EntryOut]:
    """List entries in the order in which the import discovered them. `state` may be repeated."""
    entries = services.imports.entries(
        catalog, OperationId(operation_id), state or (), limit=page.size, cursor=page.cursor
    )
    return PageOut(items=[build_entry_out(entry) for entry in entries.items], next_cursor=entries.next_cursor)


@router.post(
    "/imports/{operation_id}/resume", status_code=202, summary="Resume an import now", responses=refusals(404, 409)
)
def resume_import(services: ServicesDep, catalog: CatalogDep, operation_id: UUID) -> OperationOut:
    """Retry the source now instead of at the next scheduled attempt."""
    return build_operation_out(services.imports.resume(catalog, OperationId(operation_id)))


def _make_spec(body: ImportRequest) -> ImportSpec:
    return ImportSpec(
        kind=body.source,
        address=body.address.strip(),
        warehouse=body.warehouse,
        token_server=body.token_server,
        scope=body.scope,
        into=parse_namespace(body.into) if body.into else (),
        namespace_depth=body.namespace_depth,
        include=tuple(body.include),
        exclude=tuple(body.exclude),
        dry_run=body.dry_run,
        overwrite=body.overwrite,
        refresh=body.refresh,
        allow=tuple(location.strip() for location in body.allow_locations),
    )


def _make_secrets(body: ImportRequest) -> Secrets:
    return Secrets(token=reveal_secret(body.token), credential=reveal_secret(body.credential))


def build_entry_out(entry: Entry) -> EntryOut:
    """Build the answer from an entry."""
    return EntryOut(
        kind=entry.kind,
        name=entry.full_name,
        source=entry.source,
        state=entry.state,
        metadata_location=entry.metadata_location,
        table_uuid=entry.uuid,
        location=entry.location,
        reason=entry.reason,
        hint=entry.hint,
        warnings=list(entry.warnings),
    )
