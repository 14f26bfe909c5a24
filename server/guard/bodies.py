"""What a request demands on account of its body: what it makes, moves or commits to is named there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from catalog.access import Privilege
from catalog.errors import Invalid
from catalog.names import TableName, checked_namespace, decode_namespace, parse_namespace
from catalog.vending.storage import PREFIX as STORAGE
from server.guard.demands import (
    Asked,
    Demand,
    dropped,
    named_in_path,
    on_catalog,
    on_namespace,
    on_table,
    on_view,
    server,
)
from server.iceberg.wire import name_of, namespace_in, objects_in
from server.service.hive.operations import database_of
from server.service.hive.state import split_name


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


def converted(asked: Asked) -> Iterator[Demand]:
    """A conversion copies what can be read to where a table can be created: under Hive's name if it says no other."""
    return _converted(asked, asked.body.get("name") if asked.content else None)


def would_convert(asked: Asked) -> Iterator[Demand]:
    """The same of one that is only looked at: the name is in the query."""
    return _converted(asked, asked.query.get("name"))


def _converted(asked: Asked, name: object) -> Iterator[Demand]:
    database, own = split_name(asked.path["full_name"])
    yield from on_table(asked, TableName((database,), own), Privilege.READ)
    namespace = TableName.parse(name).namespace if isinstance(name, str) else (database,)
    yield from on_namespace(asked, namespace, Privilege.CREATE)


def new_hive_tables(asked: Asked) -> Iterator[Demand]:
    """The same for many: each name or pattern is about the namespace of its database, or about the whole catalog."""
    tables = asked.body.get("tables")
    named = [one for one in tables if isinstance(one, str)] if isinstance(tables, list) else []
    yield on_catalog(asked)
    for database in sorted({database_of(one) or "" for one in named}):
        for privilege in (Privilege.READ,) if asked.body.get("dry_run") else (Privilege.CREATE, Privilege.READ):
            yield from on_namespace(asked, (database,) if database else (), privilege)


def registered(asked: Asked) -> Iterator[Demand]:
    """Metadata anywhere in the warehouse may be named, that of any table: all of them must be readable."""
    yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.CREATE)
    yield on_catalog(asked, Privilege.READ)
    if asked.body.get("overwrite"):
        yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.DROP)


def unregistered(asked: Asked) -> Iterator[Demand]:
    """The catalog forgets the table, and its last metadata are the answer."""
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on_table(asked, named_in_path(asked, "table"), privilege)


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
    if asked.body.get("allow_locations"):  # as who sets firn.storage.allowed-locations: see catalog_settings
        yield from server(Privilege.CREATE)(asked)


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
    return _change(asked, named_in_path(asked, "table"), asked.body)


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
