"""What a request demands: a privilege on something named in its path, its query or its body."""

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
from catalog.names import CatalogName, Namespace, TableName, decode_namespace, decode_parent, parse_namespace
from firn.protocol.names import join_name
from server.service.access.access_control import Access
from server.service.hive.hive_state import split_name
from server.service.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one thing needs; `missing` is what is said to somebody for whom the thing does not exist."""

    privilege: Privilege | None
    """None: that it exists for the caller is enough."""
    on: Securable
    missing: CatalogError


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRequest:
    """A request, as far as access control has to understand it.

    Its body is the JSON value that the route gets, parsed once, and read by the route's own model: a guard that reads
    bytes for itself judges another request than the one that is carried out.
    """

    path: Mapping[str, str]
    query: QueryParams
    headers: Mapping[str, str]
    _body: object
    """The parsed JSON; None without a body, an exception where it is malformed."""
    services: Services

    @property
    def access(self) -> Access:
        """What things are granted by."""
        return self.services.access

    @property
    def catalog(self) -> CatalogName:
        """The catalog of the path."""
        return CatalogName(self.path["catalog"])

    @property
    def json(self) -> dict[str, Any]:
        """The body of a request to the Iceberg REST catalog; Invalid unless it is a JSON object."""
        if not isinstance(self._body, dict):
            raise Invalid("malformed request: the body is no JSON object")
        return self._body

    def model(self, kind: type[M]) -> M:
        """The body as the route's own model reads it; refused as the route refuses it when missing or malformed."""
        found = self.optional_model(kind)
        if found is None:
            raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required"}])
        return found

    def optional_model(self, kind: type[M]) -> M | None:
        """The same, None without a body."""
        if self._body is None:
            return None
        try:
            return kind.model_validate(self._body)
        except ValidationError as error:
            found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
            raise RequestValidationError(found) from error

    def parameter(self, name: str) -> str | None:
        """A parameter of the query; Invalid when it is given twice: programs differ in which of them counts."""
        values = self.query.getlist(name)
        if len(values) > 1:
            raise Invalid(f"the parameter {name} is given {len(values)} times", hint="give it once")
        return values[0] if values else None


Requirements = Callable[[GuardedRequest], Iterator[Requirement]]


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """What a request is about, where its demands do not tell."""

    target: str
    detail: str = ""


class Record(Enum):
    """How a route's allowed requests get into the audit log; refusals always do."""

    CHANGE = "before it is carried out"
    READ = "with the next batch"
    ROUTINE = "not at all"  # heartbeats and the like: they would drown the rest


@dataclass(frozen=True, slots=True)
class Rule:
    """What a route needs. A `public` one is open to everybody, without a token."""

    requirements: Requirements
    record: Record
    public: bool = False
    commits: bool = False
    """Whether its sender deletes files when it is refused: see server.guard.unknown_commits."""
    audit_target: Callable[[GuardedRequest], AuditTarget] | None = None
    """For the audit log; otherwise what is demanded is told there."""


def _nothing(_asked: GuardedRequest) -> Iterator[Requirement]:
    return iter(())


def reads(requirements: Requirements) -> Rule:
    """A route that changes nothing."""
    return Rule(requirements, Record.READ)


def changes(requirements: Requirements, audit_target: Callable[[GuardedRequest], AuditTarget] | None = None) -> Rule:
    """A route that changes something."""
    return Rule(requirements, Record.CHANGE, audit_target=audit_target)


def commits(requirements: Requirements) -> Rule:
    """A route that brings snapshots."""
    return Rule(requirements, Record.CHANGE, commits=True)


def routine(requirements: Requirements) -> Rule:
    """A route that is asked all the time and tells an auditor nothing."""
    return Rule(requirements, Record.ROUTINE)


PUBLIC = Rule(_nothing, Record.ROUTINE, public=True)
anyone: Requirements = _nothing
"""Every caller with a good token; what they get is cut to what they may see, or judged by the service."""


def on_catalog(asked: GuardedRequest, privilege: Privilege | None = None) -> Requirement:
    """On the catalog of the path."""
    return catalog_requirement(asked.catalog, privilege)


def catalog_requirement(catalog: CatalogName, privilege: Privilege | None = None) -> Requirement:
    """On a catalog."""
    missing = NoSuchCatalog(f"catalog {catalog!r} does not exist", hint="see the catalogs with `firn catalog list`")
    return Requirement(privilege=privilege, on=Securable(catalog), missing=missing)


def on_namespace(asked: GuardedRequest, namespace: Namespace, privilege: Privilege | None) -> Iterator[Requirement]:
    """On a namespace; () is the catalog itself."""
    yield on_catalog(asked)
    if not namespace:
        yield on_catalog(asked, privilege)
        return
    missing = NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")
    yield Requirement(privilege=privilege, on=asked.access.namespace(asked.catalog, namespace), missing=missing)


def on_table(asked: GuardedRequest, name: TableName, privilege: Privilege | None) -> Iterator[Requirement]:
    """On a table, a keyed table's store or a pinned table."""
    yield on_catalog(asked)
    missing = NoSuchTable(f"Table does not exist: {name}")
    yield Requirement(privilege=privilege, on=asked.access.table(asked.catalog, name), missing=missing)


def on_view(asked: GuardedRequest, name: TableName, privilege: Privilege | None) -> Iterator[Requirement]:
    """On a view or a keyed table."""
    yield on_catalog(asked)
    missing = NoSuchView(f"View does not exist: {name}")
    yield Requirement(privilege=privilege, on=asked.access.table(asked.catalog, name), missing=missing)


def server(privilege: Privilege) -> Requirements:
    """On the server, which exists for everybody."""

    def requirements(_asked: GuardedRequest) -> Iterator[Requirement]:
        yield Requirement(privilege=privilege, on=SERVER, missing=NotFound("there is no server"))

    return requirements


def catalog(privilege: Privilege | None = None) -> Requirements:
    """On the catalog of the path."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        yield on_catalog(asked)
        yield on_catalog(asked, privilege)

    return requirements


def namespace(privilege: Privilege | None = None) -> Requirements:
    """On the namespace of an Iceberg path."""
    return lambda asked: on_namespace(asked, decode_namespace(asked.path["namespace"]), privilege)


def table(privilege: Privilege | None = None) -> Requirements:
    """On the table of an Iceberg path."""
    return lambda asked: on_table(asked, named_in_path(asked, "table"), privilege)


def view(privilege: Privilege | None = None) -> Requirements:
    """On the view of an Iceberg path."""
    return lambda asked: on_view(asked, named_in_path(asked, "view"), privilege)


def dotted_namespace(privilege: Privilege | None = None) -> Requirements:
    """On the namespace of a management path."""
    return lambda asked: on_namespace(asked, parse_namespace(asked.path["namespace"]), privilege)


def dotted_table(privilege: Privilege | None = None) -> Requirements:
    """On the table of a management path."""
    return lambda asked: on_table(asked, TableName.parse(asked.path["table"]), privilege)


def hive_table(privilege: Privilege) -> Requirements:
    """On what a Hive table is or would be in Firn."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        database, name = split_name(asked.path["full_name"])
        return on_table(asked, TableName((database,), name), privilege)

    return requirements


def dotted_view(privilege: Privilege | None = None) -> Requirements:
    """On the view of a management path."""
    return lambda asked: on_view(asked, TableName.parse(asked.path["view"]), privilege)


def queried_namespace(parameter: str, privilege: Privilege | None = None) -> Requirements:
    """On the dotted namespace of a query, or without one on the catalog."""
    return lambda asked: on_namespace(asked, _parsed(asked.parameter(parameter)), privilege)


def job(privilege: Privilege) -> Requirements:
    """On the table of the job in the path."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        job_id = JobId(_identity(asked.path["job_id"]))
        with asked.services.database.reading() as uow:
            found = uow.jobs.get(job_id)
        missing = NotFound(f"job {job_id} does not exist")
        yield Requirement(privilege=privilege, on=asked.access.table(found.catalog, found.table), missing=missing)

    return requirements


def operation(privilege: Privilege) -> Requirements:
    """On what the operation in the path works on."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        operation_id = OperationId(_identity(asked.path["operation_id"]))
        with asked.services.database.reading() as uow:
            found = uow.operations.get(operation_id)
        missing = NotFound(f"operation {operation_id} does not exist")
        yield Requirement(privilege=privilege, on=operation_target(found), missing=missing)

    return requirements


def batch(privilege: Privilege) -> Requirements:
    """On all namespaces in which the batch in the path works; it is for those who may look at all of it."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        batch_id = BatchId(_identity(asked.path["batch"]))
        yield on_catalog(asked)
        with asked.services.database.reading() as uow:
            databases = {split_name(target)[0] for _, target in uow.operations.targets(batch_id)}
        missing = NotFound(f"there is no batch {batch_id} of operations")
        for database in sorted(databases):
            yield Requirement(
                privilege=privilege, on=asked.access.namespace(asked.catalog, (database,)), missing=missing
            )

    return requirements


def dropped(*privileges: Privilege) -> Requirements:
    """On the name that something had before it was dropped."""

    def requirements(asked: GuardedRequest) -> Iterator[Requirement]:
        entry_id = _identity(asked.path["entry_id"])
        yield on_catalog(asked)
        with asked.services.database.reading() as uow:
            on = formerly(uow.dropped.get(asked.catalog, entry_id))
        missing = NotFound(f"there is nothing dropped with the id {entry_id}")
        yield from (Requirement(privilege=one, on=on, missing=missing) for one in privileges)

    return requirements


def _identity(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is no id") from error


def _parsed(text: str | None) -> Namespace:
    return parse_namespace(text) if text else ()


def named_in_path(asked: GuardedRequest, part: str) -> TableName:
    """The table or view that the path names."""
    return TableName(decode_namespace(asked.path["namespace"]), asked.path[part])


def warehouse(asked: GuardedRequest) -> Iterator[Requirement]:
    """The catalog that an engine asks the configuration of; without one the route looks which there are."""
    named = asked.parameter("warehouse")
    if named is not None:
        yield catalog_requirement(CatalogName(named))


def parent_namespace(asked: GuardedRequest) -> Iterator[Requirement]:
    """The namespace whose children an engine lists."""
    parent = asked.parameter("parent")
    above = decode_parent(parent, asked.headers.get("user-agent", "")) if parent else ()
    return on_namespace(asked, above, None)
