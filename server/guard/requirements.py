"""Requirements: the privileges that a request needs on objects in its path, query or body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from catalog.access.privileges import SERVER, Privilege, Securable, formerly, operation_target
from catalog.errors import CatalogError, Invalid, NoSuchCatalog, NoSuchNamespace, NoSuchTable, NoSuchView, NotFound
from catalog.jobs.job import JobId
from catalog.jobs.operation import BatchId, OperationId
from catalog.jobs.stream import StreamId
from catalog.names import CatalogName, Namespace, TableName, decode_namespace, decode_parent, parse_namespace
from catalog.queries.query import QueryId
from firn.protocol.names import join_name
from server.service.access.access_control import Access
from server.service.hive.hive_state import split_name
from server.service.pipelines.definitions import DefinedPipeline, build_unknown_pipeline
from server.service.queries.queries import build_unknown_query
from server.service.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A required privilege on an object; `missing` is the error for a caller who may not see the object."""

    privilege: Privilege | None
    """None: the caller must only be able to see the object."""
    on: Securable
    missing: CatalogError


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRequest:
    """The parts of a request that access control needs.

    Its body is the JSON value of the route, parsed once and validated by the route's own model.  A guard with its own
    parser might check another request than the route executes.
    """

    path: Mapping[str, str]
    query: QueryParams
    headers: Mapping[str, str]
    _body: object
    """The parsed JSON; None without a body, an exception where it is malformed."""
    services: Services

    @property
    def access(self) -> Access:
        """The service that decides about grants."""
        return self.services.access

    @property
    def catalog(self) -> CatalogName:
        """The catalog of the path."""
        return CatalogName(self.path["catalog"])

    @property
    def json(self) -> dict[str, Any]:
        """The body of a request to the Iceberg REST catalog; Invalid unless it is a JSON object."""
        if not isinstance(self._body, dict):
            raise Invalid("malformed request: the body is not a JSON object")
        return self._body

    def model(self, kind: type[M]) -> M:
        """Parse the body with the route's model; RequestValidationError when it is missing or malformed."""
        body = self.optional_model(kind)
        if body is None:
            raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required"}])
        return body

    def optional_model(self, kind: type[M]) -> M | None:
        """Parse the body with the route's model; None without a body."""
        if self._body is None:
            return None
        try:
            return kind.model_validate(self._body)
        except ValidationError as error:
            problems = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
            raise RequestValidationError(problems) from error

    def parameter(self, name: str) -> str | None:
        """Get a query parameter; Invalid when it is repeated, because programs differ in which value counts."""
        values = self.query.getlist(name)
        if len(values) > 1:
            raise Invalid(f"the query has the parameter {name} {len(values)} times", hint="send it once")
        return values[0] if values else None


Requirements = Callable[[GuardedRequest], Iterator[Requirement]]


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """The target of a request for the audit log, where the requirements do not show it."""

    target: str
    detail: str = ""


class Record(Enum):
    """When the audit log records a route's allowed requests; it always records refusals."""

    CHANGE = "before it is carried out"
    READ = "with the next batch"
    ROUTINE = "not at all"  # heartbeats and the like, which would hide other entries


@dataclass(frozen=True, slots=True)
class Rule:
    """The requirements of a route. A `public` route needs no token."""

    requirements: Requirements
    record: Record
    public: bool = False
    commits: bool = False
    """Whether its client deletes files after a refusal: see server.guard.unknown_commits."""
    audit_target: Callable[[GuardedRequest], AuditTarget] | None = None
    """The target for the audit log; by default the objects of the requirements."""


def _nothing(_request: GuardedRequest) -> Iterator[Requirement]:
    return iter(())


def reads(requirements: Requirements) -> Rule:
    """Build the rule of a route that changes nothing."""
    return Rule(requirements, Record.READ)


def changes(requirements: Requirements, audit_target: Callable[[GuardedRequest], AuditTarget] | None = None) -> Rule:
    """Build the rule of a route that changes something."""
    return Rule(requirements, Record.CHANGE, audit_target=audit_target)


def commits(requirements: Requirements) -> Rule:
    """Build the rule of a route that commits snapshots."""
    return Rule(requirements, Record.CHANGE, commits=True)


def routine(requirements: Requirements) -> Rule:
    """Build the rule of a frequent route that is of no interest to an auditor."""
    return Rule(requirements, Record.ROUTINE)


PUBLIC = Rule(_nothing, Record.ROUTINE, public=True)
anyone: Requirements = _nothing
"""Every caller with a valid token; the route filters its answer, or the service checks the caller."""


def on_catalog(request: GuardedRequest, privilege: Privilege | None = None) -> Requirement:
    """Require a privilege on the catalog of the path."""
    return catalog_requirement(request.catalog, privilege)


def catalog_requirement(catalog: CatalogName, privilege: Privilege | None = None) -> Requirement:
    """Require a privilege on a catalog."""
    missing = NoSuchCatalog(f"catalog {catalog!r} does not exist", hint="see the catalogs with `firn catalog list`")
    return Requirement(privilege=privilege, on=Securable(catalog), missing=missing)


def on_namespace(request: GuardedRequest, namespace: Namespace, privilege: Privilege | None) -> Iterator[Requirement]:
    """Require a privilege on a namespace; () is the catalog itself."""
    yield on_catalog(request)
    if not namespace:
        yield on_catalog(request, privilege)
        return
    missing = NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")
    yield Requirement(privilege=privilege, on=request.access.namespace(request.catalog, namespace), missing=missing)


def on_table(request: GuardedRequest, name: TableName, privilege: Privilege | None) -> Iterator[Requirement]:
    """Require a privilege on a table, a keyed table's store or a pinned table."""
    yield on_catalog(request)
    missing = NoSuchTable(f"Table does not exist: {name}")
    yield Requirement(privilege=privilege, on=request.access.table(request.catalog, name), missing=missing)


def on_view(request: GuardedRequest, name: TableName, privilege: Privilege | None) -> Iterator[Requirement]:
    """Require a privilege on a view or a keyed table."""
    yield on_catalog(request)
    missing = NoSuchView(f"View does not exist: {name}")
    yield Requirement(privilege=privilege, on=request.access.table(request.catalog, name), missing=missing)


def server(privilege: Privilege) -> Requirements:
    """Require a privilege on the server, which every caller can see."""

    def requirements(_request: GuardedRequest) -> Iterator[Requirement]:
        yield Requirement(privilege=privilege, on=SERVER, missing=NotFound("there is no server"))

    return requirements


def catalog(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the catalog of the path."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        yield on_catalog(request)
        yield on_catalog(request, privilege)

    return requirements


def namespace(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the namespace of an Iceberg path."""
    return lambda request: on_namespace(request, decode_namespace(request.path["namespace"]), privilege)


def table(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the table of an Iceberg path."""
    return lambda request: on_table(request, named_in_path(request, "table"), privilege)


def view(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the view of an Iceberg path."""
    return lambda request: on_view(request, named_in_path(request, "view"), privilege)


def dotted_namespace(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the namespace of a management path."""
    return lambda request: on_namespace(request, parse_namespace(request.path["namespace"]), privilege)


def dotted_table(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the table of a management path."""
    return lambda request: on_table(request, TableName.parse(request.path["table"]), privilege)


def hive_table(privilege: Privilege) -> Requirements:
    """Require a privilege on the table that a Hive table is or would become in Firn."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        database, name = split_name(request.path["full_name"])
        return on_table(request, TableName((database,), name), privilege)

    return requirements


def dotted_view(privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the view of a management path."""
    return lambda request: on_view(request, TableName.parse(request.path["view"]), privilege)


def queried_namespace(parameter: str, privilege: Privilege | None = None) -> Requirements:
    """Require a privilege on the dotted namespace of a query, or without one on the catalog."""
    return lambda request: on_namespace(request, _parse_optional_namespace(request.parameter(parameter)), privilege)


def job(privilege: Privilege) -> Requirements:
    """Require a privilege on the table of the job in the path."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        job_id = JobId(_parse_id(request.path["job_id"]))
        with request.services.database.reading() as uow:
            found_job = uow.jobs.get(job_id)
        missing = NotFound(f"job {job_id} does not exist")
        yield Requirement(
            privilege=privilege, on=request.access.table(found_job.catalog, found_job.table), missing=missing
        )

    return requirements


def stream(privilege: Privilege) -> Requirements:
    """Require a privilege on the table of the stream in the path."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        stream_id = StreamId(_parse_id(request.path["stream_id"]))
        with request.services.database.reading() as uow:
            named = uow.streams.get(stream_id)
        missing = NotFound(f"stream {stream_id} does not exist")
        yield Requirement(
            privilege=privilege, on=request.access.table(named.stream.catalog, named.table), missing=missing
        )

    return requirements


def pipeline(privilege: Privilege) -> Requirements:
    """Require a privilege on all tables that the pipeline in the path writes."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        return on_pipeline(request, request.services.pipelines.get(request.path["pipeline"]), privilege)

    return requirements


def on_pipeline(request: GuardedRequest, defined: DefinedPipeline, privilege: Privilege) -> Iterator[Requirement]:
    """Require a privilege on all tables that a pipeline writes: its queries name the tables that it reads."""
    missing = build_unknown_pipeline(defined.pipeline.name)
    for table in defined.tables:
        yield Requirement(privilege=privilege, on=request.access.table(table.catalog, table.name), missing=missing)


def query(request: GuardedRequest) -> Iterator[Requirement]:
    """Require `read` on all tables of the query in the path: the right may have ended since it ran."""
    query_id = QueryId(_parse_id(request.path["query_id"]))
    with request.services.database.reading() as uow:
        stored = uow.queries.find(query_id)
    missing = build_unknown_query(query_id)
    if stored is None:
        raise missing
    for table in stored.tables:
        on = request.access.table(table.catalog, table.name)
        yield Requirement(privilege=Privilege.READ, on=on, missing=missing)


def operation(privilege: Privilege) -> Requirements:
    """Require a privilege on the table of the operation in the path."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        operation_id = OperationId(_parse_id(request.path["operation_id"]))
        with request.services.database.reading() as uow:
            found_operation = uow.operations.get(operation_id)
        missing = NotFound(f"operation {operation_id} does not exist")
        yield Requirement(privilege=privilege, on=operation_target(found_operation), missing=missing)

    return requirements


def batch(privilege: Privilege) -> Requirements:
    """Require a privilege on all namespaces of the batch in the path."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        batch_id = BatchId(_parse_id(request.path["batch"]))
        yield on_catalog(request)
        with request.services.database.reading() as uow:
            databases = {split_name(target)[0] for _, target in uow.operations.targets(batch_id)}
        missing = NotFound(f"batch {batch_id} does not exist")
        for database in sorted(databases):
            yield Requirement(
                privilege=privilege, on=request.access.namespace(request.catalog, (database,)), missing=missing
            )

    return requirements


def dropped(*privileges: Privilege) -> Requirements:
    """Require privileges on the former name of a dropped table, view or namespace."""

    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        entry_id = _parse_id(request.path["entry_id"])
        yield on_catalog(request)
        with request.services.database.reading() as uow:
            on = formerly(uow.dropped.get(request.catalog, entry_id))
        missing = NotFound(f"catalog {request.catalog} has no dropped table with the id {entry_id}")
        yield from (Requirement(privilege=privilege, on=on, missing=missing) for privilege in privileges)

    return requirements


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is not an id") from error


def _parse_optional_namespace(text: str | None) -> Namespace:
    return parse_namespace(text) if text else ()


def named_in_path(request: GuardedRequest, part: str) -> TableName:
    """Parse the table or view in the path."""
    return TableName(decode_namespace(request.path["namespace"]), request.path[part])


def warehouse(request: GuardedRequest) -> Iterator[Requirement]:
    """Require that the caller sees the catalog in `warehouse`; without one the route chooses a visible catalog."""
    name = request.parameter("warehouse")
    if name is not None:
        yield catalog_requirement(CatalogName(name))


def parent_namespace(request: GuardedRequest) -> Iterator[Requirement]:
    """Require that the caller sees the namespace whose children an engine lists."""
    parent = request.parameter("parent")
    above = decode_parent(parent, request.headers.get("user-agent", "")) if parent else ()
    return on_namespace(request, above, None)
