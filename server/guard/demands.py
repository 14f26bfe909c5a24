"""What a request demands: a privilege on something named in its path, its query or its body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

from catalog.access import SERVER, Privilege, Securable, formerly, worked_on
from catalog.errors import CatalogError, Invalid, NoSuchCatalog, NoSuchNamespace, NoSuchTable, NoSuchView, NotFound
from catalog.job import JobId
from catalog.names import (
    CatalogName,
    Namespace,
    TableName,
    checked_namespace,
    decode_namespace,
    decode_parent,
    dotted,
    parse_namespace,
)
from catalog.operation import OperationId
from catalog.vending.storage import PREFIX as STORAGE
from server.iceberg.wire import name_of, namespace_in, objects_in
from server.service.access.access import Access
from server.service.hive.state import split_name
from server.service.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one thing needs; `missing` is what is said to somebody for whom the thing does not exist."""

    privilege: Privilege | None
    """None: that it exists for the caller is enough."""
    on: Securable
    missing: CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as far as access control has to understand it."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes
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
    def body(self) -> dict[str, Any]:
        """Read as the routes read it: the one API by orjson, the other by Python's parser, which takes more and where
        both take it says the same.
        """
        try:
            body = orjson.loads(self.content)
        except orjson.JSONDecodeError:
            body = _by_python(self.content)
        if not isinstance(body, dict):
            raise Invalid("malformed request: the body is no JSON object")
        return body


def _by_python(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Invalid("malformed request: the body is no JSON") from error


Demands = Callable[[Asked], Iterator[Demand]]


class Record(Enum):
    """How a route's allowed requests get into the audit log; refusals always do."""

    CHANGE = "before it is carried out"
    READ = "with the next batch"
    ROUTINE = "not at all"  # heartbeats and the like: they would drown the rest


@dataclass(frozen=True, slots=True)
class Rule:
    """What a route needs. A `public` one is open to everybody, without a token."""

    demands: Demands
    record: Record
    public: bool = False
    commits: bool = False
    """Whether its sender deletes files when it is refused: see server.guard.doubt."""


def _nothing(_asked: Asked) -> Iterator[Demand]:
    return iter(())


def reads(demands: Demands) -> Rule:
    """A route that changes nothing."""
    return Rule(demands, Record.READ)


def changes(demands: Demands) -> Rule:
    """A route that changes something."""
    return Rule(demands, Record.CHANGE)


def commits(demands: Demands) -> Rule:
    """A route that brings snapshots."""
    return Rule(demands, Record.CHANGE, commits=True)


def routine(demands: Demands) -> Rule:
    """A route that is asked all the time and tells an auditor nothing."""
    return Rule(demands, Record.ROUTINE)


PUBLIC = Rule(_nothing, Record.ROUTINE, public=True)
anyone: Demands = _nothing
"""Every caller with a good token; what they get is cut to what they may see, or judged by the service."""


def on_catalog(asked: Asked, privilege: Privilege | None = None) -> Demand:
    """On the catalog of the path."""
    return catalog_demand(asked.catalog, privilege)


def catalog_demand(catalog: CatalogName, privilege: Privilege | None = None) -> Demand:
    """On a catalog."""
    missing = NoSuchCatalog(f"catalog {catalog!r} does not exist", hint="see the catalogs with `firn catalog list`")
    return Demand(privilege=privilege, on=Securable(catalog), missing=missing)


def on_namespace(asked: Asked, namespace: Namespace, privilege: Privilege | None) -> Iterator[Demand]:
    """On a namespace; () is the catalog itself."""
    yield on_catalog(asked)
    if not namespace:
        yield on_catalog(asked, privilege)
        return
    missing = NoSuchNamespace(f"Namespace does not exist: {dotted(namespace)}")
    yield Demand(privilege=privilege, on=asked.access.namespace(asked.catalog, namespace), missing=missing)


def on_table(asked: Asked, name: TableName, privilege: Privilege | None) -> Iterator[Demand]:
    """On a table, a keyed table's store or a pinned table."""
    yield on_catalog(asked)
    missing = NoSuchTable(f"Table does not exist: {name}")
    yield Demand(privilege=privilege, on=asked.access.table(asked.catalog, name), missing=missing)


def on_view(asked: Asked, name: TableName, privilege: Privilege | None) -> Iterator[Demand]:
    """On a view or a keyed table."""
    yield on_catalog(asked)
    missing = NoSuchView(f"View does not exist: {name}")
    yield Demand(privilege=privilege, on=asked.access.table(asked.catalog, name), missing=missing)


def server(privilege: Privilege) -> Demands:
    """On the server, which exists for everybody."""

    def demands(_asked: Asked) -> Iterator[Demand]:
        yield Demand(privilege=privilege, on=SERVER, missing=NotFound("there is no server"))

    return demands


def catalog(privilege: Privilege | None = None) -> Demands:
    """On the catalog of the path."""

    def demands(asked: Asked) -> Iterator[Demand]:
        yield on_catalog(asked)
        yield on_catalog(asked, privilege)

    return demands


def namespace(privilege: Privilege | None = None) -> Demands:
    """On the namespace of an Iceberg path."""
    return lambda asked: on_namespace(asked, decode_namespace(asked.path["namespace"]), privilege)


def table(privilege: Privilege | None = None) -> Demands:
    """On the table of an Iceberg path."""
    return lambda asked: on_table(asked, _named(asked, "table"), privilege)


def view(privilege: Privilege | None = None) -> Demands:
    """On the view of an Iceberg path."""
    return lambda asked: on_view(asked, _named(asked, "view"), privilege)


def dotted_namespace(privilege: Privilege | None = None) -> Demands:
    """On the namespace of a management path."""
    return lambda asked: on_namespace(asked, parse_namespace(asked.path["namespace"]), privilege)


def dotted_table(privilege: Privilege | None = None) -> Demands:
    """On the table of a management path."""
    return lambda asked: on_table(asked, TableName.parse(asked.path["table"]), privilege)


def hive_table(privilege: Privilege) -> Demands:
    """On what a Hive table is or would be in Firn."""

    def demands(asked: Asked) -> Iterator[Demand]:
        database, name = split_name(asked.path["full_name"])
        return on_table(asked, TableName((database,), name), privilege)

    return demands


def dotted_view(privilege: Privilege | None = None) -> Demands:
    """On the view of a management path."""
    return lambda asked: on_view(asked, TableName.parse(asked.path["view"]), privilege)


def queried_namespace(parameter: str, privilege: Privilege | None = None) -> Demands:
    """On the dotted namespace of a query, or without one on the catalog."""
    return lambda asked: on_namespace(asked, _parsed(asked.query.get(parameter)), privilege)


def job(privilege: Privilege) -> Demands:
    """On the table of the job in the path."""

    def demands(asked: Asked) -> Iterator[Demand]:
        job_id = JobId(_identity(asked.path["job_id"]))
        with asked.services.database.reading() as uow:
            found = uow.jobs.get(job_id)
        missing = NotFound(f"job {job_id} does not exist")
        yield Demand(privilege=privilege, on=asked.access.table(found.catalog, found.table), missing=missing)

    return demands


def operation(privilege: Privilege) -> Demands:
    """On what the operation in the path works on."""

    def demands(asked: Asked) -> Iterator[Demand]:
        operation_id = OperationId(_identity(asked.path["operation_id"]))
        with asked.services.database.reading() as uow:
            found = uow.operations.get(operation_id)
        missing = NotFound(f"operation {operation_id} does not exist")
        yield Demand(privilege=privilege, on=worked_on(found), missing=missing)

    return demands


def dropped(*privileges: Privilege) -> Demands:
    """On the name that something had before it was dropped."""

    def demands(asked: Asked) -> Iterator[Demand]:
        entry_id = _identity(asked.path["entry_id"])
        yield on_catalog(asked)
        with asked.services.database.reading() as uow:
            on = formerly(uow.dropped.get(asked.catalog, entry_id))
        missing = NotFound(f"there is nothing dropped with the id {entry_id}")
        yield from (Demand(privilege=one, on=on, missing=missing) for one in privileges)

    return demands


def _identity(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is no id") from error


def _parsed(text: str | None) -> Namespace:
    return parse_namespace(text) if text else ()


def _named(asked: Asked, part: str) -> TableName:
    return TableName(decode_namespace(asked.path["namespace"]), asked.path[part])


# --- what only the body or the query says ----------------------------------------------------------------------------


def warehouse(asked: Asked) -> Iterator[Demand]:
    """The catalog that an engine asks the configuration of; without one the route looks which there are."""
    if asked.query.get("warehouse") is not None:
        yield catalog_demand(CatalogName(asked.query["warehouse"]))


def parent_namespace(asked: Asked) -> Iterator[Demand]:
    """The namespace whose children an engine lists."""
    parent = asked.query.get("parent")
    above = decode_parent(parent, asked.headers.get("user-agent", "")) if parent else ()
    return on_namespace(asked, above, None)


def catalog_settings(asked: Asked) -> Iterator[Demand]:
    """Maintainers look after a catalog; what its storage is, and by which role it is reached, is the server's affair.

    They would else send the server's keys, or everybody's data, to a place of their own.
    """
    yield on_catalog(asked)
    yield on_catalog(asked, Privilege.MAINTAIN)
    changed, removed = asked.body.get("set"), asked.body.get("remove")
    # The route refuses other shapes, and says which it wants.
    named = [*(changed if isinstance(changed, dict) else ()), *(removed if isinstance(removed, list) else ())]
    if any(isinstance(key, str) and key.startswith(STORAGE) for key in named):
        yield from server(Privilege.CREATE)(asked)


def new_namespace(asked: Asked) -> Iterator[Demand]:
    """A namespace is created in its parent."""
    named = checked_namespace(namespace_in(asked.body.get("namespace"), "namespace"))
    return on_namespace(asked, named[:-1], Privilege.CREATE)


def new_dotted_namespace(asked: Asked) -> Iterator[Demand]:
    """The same, with the parents that are missing."""
    return on_namespace(asked, parse_namespace(_text(asked, "name"))[:-1], Privilege.CREATE)


def new_dotted_table(asked: Asked) -> Iterator[Demand]:
    """A table is created in its namespace, and so is the namespace if need be."""
    return on_namespace(asked, TableName.parse(_text(asked, "name")).namespace, Privilege.CREATE)


def new_hive_table(asked: Asked) -> Iterator[Demand]:
    """An upgrade creates a table named like Hive's, in a namespace named like Hive's database."""
    database, name = split_name(asked.path["full_name"])
    yield from on_namespace(asked, (database,), Privilege.CREATE)
    yield from on_table(asked, TableName((database,), name), Privilege.READ)


def registered(asked: Asked) -> Iterator[Demand]:
    """Metadata anywhere in the warehouse may be named, that of any table: all of them must be readable."""
    yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.CREATE)
    yield on_catalog(asked, Privilege.READ)
    if asked.body.get("overwrite"):
        yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.DROP)


def unregistered(asked: Asked) -> Iterator[Demand]:
    """The catalog forgets the table, and its last metadata are the answer."""
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on_table(asked, _named(asked, "table"), privilege)


def brought_back(asked: Asked) -> Iterator[Demand]:
    """Who brings a table back can read it, and create it where it comes back to."""
    yield from dropped(Privilege.READ, Privilege.CREATE)(asked)
    to = asked.body.get("to") if asked.content else None
    if isinstance(to, str):
        yield from on_namespace(asked, TableName.parse(to).namespace, Privilege.CREATE)


def registered_dotted(asked: Asked) -> Iterator[Demand]:
    """See `registered`; by the management API."""
    name = TableName.parse(asked.path["table"])
    yield from on_namespace(asked, name.namespace, Privilege.CREATE)
    yield on_catalog(asked, Privilege.READ)
    if asked.body.get("overwrite"):
        yield from on_namespace(asked, name.namespace, Privilege.DROP)


def imported(asked: Asked) -> Iterator[Demand]:
    """An import may create and overwrite anything in the catalog, and makes the server open what it is told."""
    for privilege in (Privilege.READ, Privilege.CREATE, Privilege.DROP, Privilege.MAINTAIN):
        yield on_catalog(asked, privilege)


def renamed(asked: Asked) -> Iterator[Demand]:
    """Under its new name others may read and write it: who renames must have been able to copy it there."""
    yield from _renamed(asked, on_table)


def renamed_view(asked: Asked) -> Iterator[Demand]:
    """The same for views and keyed tables."""
    yield from _renamed(asked, on_view)


def _renamed(asked: Asked, on: Callable[[Asked, TableName, Privilege], Iterator[Demand]]) -> Iterator[Demand]:
    body = asked.body
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on(asked, source, privilege)
    yield from on_namespace(asked, to.namespace, Privilege.CREATE)


def committed(asked: Asked) -> Iterator[Demand]:
    """One table's commit."""
    return _change(asked, _named(asked, "table"), asked.body)


def committed_together(asked: Asked) -> Iterator[Demand]:
    """Every table of a transaction."""
    yield on_catalog(asked)
    for one in objects_in(asked.body, "table-changes"):
        yield from _change(asked, name_of(one.get("identifier"), "identifier"), one)


def _change(asked: Asked, name: TableName, body: dict[str, Any]) -> Iterator[Demand]:
    """A commit that makes the table creates; one under a job's lease maintains; any other writes."""
    if any(one.get("type") == "assert-create" for one in objects_in(body, "requirements")):
        return on_namespace(asked, name.namespace, Privilege.CREATE)
    leased = "x-firn-lease" in asked.headers
    return on_table(asked, name, Privilege.MAINTAIN if leased else Privilege.WRITE)


def _text(asked: Asked, key: str) -> str:
    value = asked.body.get(key)
    if not isinstance(value, str):
        raise Invalid(f"{key}: expected a string")
    return value
