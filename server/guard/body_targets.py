"""What a request demands on account of its body: what it makes, moves or commits to is named there.

Each rule reads the body by the model or the functions of its route; see `GuardedRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from catalog.access.privileges import Privilege
from catalog.credentials.storage_config import PREFIX as STORAGE
from catalog.history.commit import is_creating
from catalog.names import TableName, check_namespace, decode_namespace, parse_namespace
from catalog.policy.authority import need_write_privilege
from server.api.catalogs import CatalogPropertiesIn, NamespaceIn
from server.api.convert import ConvertIn
from server.api.dropped import UndropIn
from server.api.hive import UpgradeIn
from server.api.imports import ImportIn, RegisterIn
from server.api.policies import PolicyChangeIn
from server.api.table_jobs import StartJobIn
from server.api.tables import TableIn
from server.api.upgrades import UpgradeManyIn
from server.guard.requirements import (
    GuardedRequest,
    Requirement,
    dropped,
    named_in_path,
    on_catalog,
    on_namespace,
    on_table,
    on_view,
    queried_namespace,
    server,
)
from server.iceberg.requests import flag_in, name_of, namespace_in, objects_in
from server.service.hive.hive_state import split_name
from server.service.hive.operations import database_of


def catalog_settings(asked: GuardedRequest) -> Iterator[Requirement]:
    """Maintainers look after a catalog; what its storage is, and by which role it is reached, is the server's affair.

    They would else send the server's keys, or everybody's data, to a place of their own. How long dropped tables are
    kept takes the privilege to write.
    """
    yield on_catalog(asked)
    yield on_catalog(asked, Privilege.MAINTAIN)
    wanted = asked.model(CatalogPropertiesIn)
    named = {*wanted.set, *wanted.remove}
    if any(key.startswith(STORAGE) for key in named):
        yield from server(Privilege.CREATE)(asked)
    if need_write_privilege(named):
        yield on_catalog(asked, Privilege.WRITE)


def policy(asked: GuardedRequest) -> Iterator[Requirement]:
    """Who maintains a namespace says how its tables are looked after, only who may write how long their rows stay."""
    wanted = asked.model(PolicyChangeIn)
    yield from queried_namespace("namespace", Privilege.MAINTAIN)(asked)
    if need_write_privilege({*wanted.set, *wanted.remove}):
        yield from queried_namespace("namespace", Privilege.WRITE)(asked)


def whole_policy(asked: GuardedRequest) -> Iterator[Requirement]:
    """What is not in the new policy is removed by it, whatever that was: it takes both."""
    for privilege in (Privilege.MAINTAIN, Privilege.WRITE):
        yield from queried_namespace("namespace", privilege)(asked)


def new_namespace(asked: GuardedRequest) -> Iterator[Requirement]:
    """A namespace is created in its parent."""
    named = check_namespace(namespace_in(asked.json.get("namespace"), "namespace"))
    return on_namespace(asked, named[:-1], Privilege.CREATE)


def new_dotted_namespace(asked: GuardedRequest) -> Iterator[Requirement]:
    """The same, with the parents that are missing."""
    return on_namespace(asked, parse_namespace(asked.model(NamespaceIn).name)[:-1], Privilege.CREATE)


def new_dotted_table(asked: GuardedRequest) -> Iterator[Requirement]:
    """A table is created in its namespace, and so is the namespace if need be."""
    return on_namespace(asked, TableName.parse(asked.model(TableIn).name).namespace, Privilege.CREATE)


def new_hive_table(asked: GuardedRequest) -> Iterator[Requirement]:
    """An upgrade creates a table named like Hive's, in a namespace named like Hive's database."""
    database, name = split_name(asked.path["full_name"])
    yield from on_namespace(asked, (database,), Privilege.CREATE)
    yield from on_table(asked, TableName((database,), name), Privilege.READ)
    if need_write_privilege(asked.model(UpgradeIn).properties):  # the table has rows from its beginning: Hive's
        yield from on_table(asked, TableName((database,), name), Privilege.WRITE)


def converted(asked: GuardedRequest) -> Iterator[Requirement]:
    """A conversion copies what can be read to where a table can be created: under Hive's name if it says no other."""
    wanted = asked.optional_model(ConvertIn)
    return _converted(asked, None if wanted is None else wanted.name)


def would_convert(asked: GuardedRequest) -> Iterator[Requirement]:
    """The same of one that is only looked at: the name is in the query."""
    return _converted(asked, asked.parameter("name"))


def _converted(asked: GuardedRequest, name: str | None) -> Iterator[Requirement]:
    database, own = split_name(asked.path["full_name"])
    yield from on_table(asked, TableName((database,), own), Privilege.READ)
    namespace = (database,) if name is None else TableName.parse(name).namespace
    yield from on_namespace(asked, namespace, Privilege.CREATE)


def new_hive_tables(asked: GuardedRequest) -> Iterator[Requirement]:
    """The same for many: each name or pattern is about the namespace of its database, or about the whole catalog."""
    wanted = asked.model(UpgradeManyIn)
    needed = [Privilege.READ] if wanted.dry_run else [Privilege.CREATE, Privilege.READ]
    if not wanted.dry_run and need_write_privilege(wanted.properties):
        needed.append(Privilege.WRITE)
    yield on_catalog(asked)
    for database in sorted({database_of(table) or "" for table in wanted.tables}):
        for privilege in needed:
            yield from on_namespace(asked, (database,) if database else (), privilege)


def registered(asked: GuardedRequest) -> Iterator[Requirement]:
    """Metadata anywhere in the warehouse may be named, that of any table: all of them must be readable."""
    yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.CREATE)
    yield on_catalog(asked, Privilege.READ)
    if flag_in(asked.json, "overwrite"):
        yield from on_namespace(asked, decode_namespace(asked.path["namespace"]), Privilege.DROP)


def unregistered(asked: GuardedRequest) -> Iterator[Requirement]:
    """The catalog forgets the table, and its last metadata are the answer."""
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on_table(asked, named_in_path(asked, "table"), privilege)


def brought_back(asked: GuardedRequest) -> Iterator[Requirement]:
    """Who brings a table back can read it, and create it where it comes back to."""
    yield from dropped(Privilege.READ, Privilege.CREATE)(asked)
    wanted = asked.optional_model(UndropIn)
    if wanted is not None and wanted.to is not None:
        yield from on_namespace(asked, TableName.parse(wanted.to).namespace, Privilege.CREATE)


def started_job(asked: GuardedRequest) -> Iterator[Requirement]:
    """The kind of the job says what its options take: most only maintain a table, some delete its rows."""
    wanted = asked.model(StartJobIn).root.job_options
    return on_table(asked, TableName.parse(asked.path["table"]), wanted.privilege)


def registered_dotted(asked: GuardedRequest) -> Iterator[Requirement]:
    """See `registered`; by the management API."""
    name = TableName.parse(asked.path["table"])
    yield from on_namespace(asked, name.namespace, Privilege.CREATE)
    yield on_catalog(asked, Privilege.READ)
    if asked.model(RegisterIn).overwrite:
        yield from on_namespace(asked, name.namespace, Privilege.DROP)


def imported(asked: GuardedRequest) -> Iterator[Requirement]:
    """An import may create and overwrite anything in the catalog, and makes the server open what it is told."""
    for privilege in (Privilege.READ, Privilege.CREATE, Privilege.DROP, Privilege.MAINTAIN):
        yield on_catalog(asked, privilege)
    if asked.model(ImportIn).allow_locations:  # as who sets firn.storage.allowed-locations: see catalog_settings
        yield from server(Privilege.CREATE)(asked)


def renamed(asked: GuardedRequest) -> Iterator[Requirement]:
    """Under its new name others may read and write it: who renames must have been able to copy it there."""
    yield from _renamed(asked, on_table)


def renamed_view(asked: GuardedRequest) -> Iterator[Requirement]:
    """The same for views and keyed tables."""
    yield from _renamed(asked, on_view)


def _renamed(
    asked: GuardedRequest, on: Callable[[GuardedRequest, TableName, Privilege], Iterator[Requirement]]
) -> Iterator[Requirement]:
    body = asked.json
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on(asked, source, privilege)
    yield from on_namespace(asked, to.namespace, Privilege.CREATE)


def committed(asked: GuardedRequest) -> Iterator[Requirement]:
    """A commit that makes the table creates; one under a job's lease maintains; any other writes."""
    name = named_in_path(asked, "table")
    if is_creating(objects_in(asked.json, "requirements")):
        return on_namespace(asked, name.namespace, Privilege.CREATE)
    return on_table(asked, name, _committing(asked))


def committed_together(asked: GuardedRequest) -> Iterator[Requirement]:
    """Every table of a transaction, which creates none: whatever it requires, it changes tables that there are."""
    yield on_catalog(asked)
    for change in objects_in(asked.json, "table-changes"):
        yield from on_table(asked, name_of(change.get("identifier"), "identifier"), _committing(asked))


def _committing(asked: GuardedRequest) -> Privilege:
    return Privilege.MAINTAIN if "x-firn-lease" in asked.headers else Privilege.WRITE
