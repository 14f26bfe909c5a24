"""Tables that are here already, in a warehouse or in another catalog: registered one by one or imported in bulk."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field, SecretStr

from catalog.errors import Conflict, Invalid, LocationRefused
from catalog.imports.entry import Entry, EntryKind, EntryState
from catalog.imports.import_rules import ImportAction, ImportOptions, find_warnings
from catalog.imports.spec import ImportSpec, Secrets, SourceKind
from catalog.jobs.operation import OperationId
from catalog.names import parse_namespace
from catalog.tables.relation import RelationKind
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.operations import OperationOut

router = APIRouter(prefix="/catalogs/{catalog}", tags=["imports"])


class RegisterIn(In):
    """A table by its metadata file. `overwrite` replaces what has the name; its files stay."""

    metadata_location: str
    overwrite: bool = False
    dry_run: bool = False


class RegisteredTableOut(Out):
    """What was done with it, or would be: `registered`, `ready` (a dry run) or `there` already."""

    table: str
    state: EntryState
    table_uuid: str
    location: str
    metadata_location: str
    reason: str | None
    warnings: list[str]


class ImportIn(In):
    """Where tables are imported from, which, and how. Token and credential are kept while it runs and never shown."""

    source: SourceKind
    address: str = Field(description="file:, s3: or hdfs: URI of a warehouse, http(s) URL of a catalog, thrift:// URI")
    warehouse: str | None = Field(default=None, description="The warehouse parameter of the other REST catalog.")
    token: SecretStr | None = Field(default=None, description="Bearer token for the other REST catalog.")
    credential: SecretStr | None = Field(default=None, description="CLIENT_ID:CLIENT_SECRET for a token.")
    token_server: str | None = Field(default=None, description="Where tokens are given, unless by the catalog itself.")
    scope: str | None = Field(default=None, description="Scope to ask a token for; by default `catalog`.")
    into: str | None = Field(default=None, description="Namespace below which all namespaces are put.")
    namespace_depth: int | None = Field(
        default=None, ge=0, le=100, description="Directories above a table's that are its namespace; by default all."
    )
    include: list[str] = Field(default=[], description="Patterns such as `sales.*`: only these.")
    exclude: list[str] = Field(default=[], description="Patterns such as `sales.tmp_*`: not these.")
    dry_run: bool = Field(default=False, description="Say what would become of each table, register none.")
    overwrite: bool = Field(default=False, description="Replace other tables that have the name; their files stay.")
    refresh: bool = Field(default=False, description="Let tables that are here follow a source that has moved on.")

    allow_locations: list[str] = Field(
        default=[],
        description="Locations that are added to the catalog's allowed locations first; only an administrator may.",
    )

    def spec(self) -> ImportSpec:
        """As the domain has it."""
        return ImportSpec(
            kind=self.source,
            address=self.address.strip(),
            warehouse=self.warehouse,
            token_server=self.token_server,
            scope=self.scope,
            into=parse_namespace(self.into) if self.into else (),
            namespace_depth=self.namespace_depth,
            include=tuple(self.include),
            exclude=tuple(self.exclude),
            dry_run=self.dry_run,
            overwrite=self.overwrite,
            refresh=self.refresh,
            allow=tuple(one.strip() for one in self.allow_locations),
        )

    def secrets(self) -> Secrets:
        """What the source wants to see."""
        return Secrets(token=_revealed(self.token), credential=_revealed(self.credential))


class EntryOut(Out):
    """One namespace, table or view that an import has found, and what became of it."""

    kind: EntryKind
    name: str
    source: str
    state: EntryState
    metadata_location: str | None
    table_uuid: str | None
    location: str | None
    reason: str | None
    hint: str | None
    warnings: list[str]

    @classmethod
    def of(cls, entry: Entry) -> EntryOut:
        """An entry as it is shown."""
        return cls(
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


@router.post("/tables/{table}/register", summary="Register a table", responses=refusals(400, 404, 409, 503))
def register_table(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: RegisterIn) -> RegisteredTableOut:
    """Take over a table by its current metadata file; its namespace is created if need be.

    A table that is registered so already is left as it is. The other catalog, if there is one, must not be written to
    any more: two catalogs that commit to one table lose data.
    """
    registrar, rules = services.imports.registrar, ImportOptions(overwrite=body.overwrite)
    candidate = registrar.read(catalog, table, body.metadata_location)
    if candidate.kind is not RelationKind.TABLE:
        raise Invalid(f"{body.metadata_location} is the metadata of a view")
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
def start_import(services: ServicesDep, catalog: CatalogDep, body: ImportIn) -> OperationOut:
    """Start an import; the operation tells its progress and counts, `entries` what becomes of each table."""
    return OperationOut.of(services.imports.start(catalog, body.spec(), body.secrets()))


@router.get("/imports/{operation_id}/entries", summary="List what an import has found", responses=refusals(404))
def list_entries(
    services: ServicesDep,
    catalog: CatalogDep,
    operation_id: UUID,
    page: PagingDep,
    state: Annotated[list[EntryState] | None, Query()] = None,
) -> PageOut[EntryOut]:
    """In the order found; `state` may be repeated."""
    found = services.imports.entries(
        catalog, OperationId(operation_id), state or (), limit=page.size, cursor=page.cursor
    )
    return PageOut(items=[EntryOut.of(one) for one in found.items], next_cursor=found.next_cursor)


@router.post(
    "/imports/{operation_id}/resume", status_code=202, summary="Go on with an import now", responses=refusals(404, 409)
)
def resume_import(services: ServicesDep, catalog: CatalogDep, operation_id: UUID) -> OperationOut:
    """Do not wait until the source is asked again by itself."""
    return OperationOut.of(services.imports.resume(catalog, OperationId(operation_id)))


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
