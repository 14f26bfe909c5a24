"""Requirements that depend on the body, which names the created, moved or changed tables.

Each rule parses the body with the model or functions of its route; see `GuardedRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from catalog.access.privileges import Privilege, Securable
from catalog.credentials.storage_config import PREFIX as STORAGE
from catalog.errors import NoSuchNamespace, NoSuchTable, NotFound
from catalog.history.commit import is_creating
from catalog.names import CatalogName, TableName, check_namespace, decode_namespace, parse_namespace
from catalog.pipelines.versions import parse_definitions, parse_inputs
from catalog.policy.authority import need_write_privilege
from firn.protocol.imports import ImportRequest
from firn.protocol.names import join_name
from firn.protocol.pipelines import PutPipeline
from firn.protocol.queries import QueryRequest
from server.api.catalogs import CatalogPropertiesIn, NamespaceIn
from server.api.convert import ConvertIn
from server.api.dropped import UndropIn
from server.api.hive import UpgradeIn
from server.api.imports import RegisterIn
from server.api.logs import LogColumnsIn
from server.api.policies import PolicyChangeIn
from server.api.quarantines import QuarantineWriterIn
from server.api.table_jobs import StartJobIn
from server.api.tables import TableIn
from server.api.upgrades import UpgradeManyIn
from server.guard.requirements import (
    GuardedRequest,
    Requirement,
    catalog_requirement,
    dropped,
    named_in_path,
    on_catalog,
    on_namespace,
    on_pipeline,
    on_table,
    on_view,
    queried_namespace,
    server,
)
from server.iceberg.requests import flag_in, name_of, namespace_in, objects_in, text_in
from server.service.hive.hive_state import split_name
from server.service.hive.operations import database_of


def catalog_settings(request: GuardedRequest) -> Iterator[Requirement]:
    """Changing a catalog needs `maintain`; its storage settings need `create` on the server.

    With weaker rules, a maintainer could redirect the server's keys or everybody's data.  The retention of dropped
    tables needs `write`.
    """
    yield on_catalog(request)
    yield on_catalog(request, Privilege.MAINTAIN)
    body = request.model(CatalogPropertiesIn)
    keys = {*body.set, *body.remove}
    if any(key.startswith(STORAGE) for key in keys):
        yield from server(Privilege.CREATE)(request)
    if need_write_privilege(keys):
        yield on_catalog(request, Privilege.WRITE)


def policy(request: GuardedRequest) -> Iterator[Requirement]:
    """Changing a policy needs `maintain`, and `write` for settings that decide how long rows stay."""
    body = request.model(PolicyChangeIn)
    yield from queried_namespace("namespace", Privilege.MAINTAIN)(request)
    if need_write_privilege({*body.set, *body.remove}):
        yield from queried_namespace("namespace", Privilege.WRITE)(request)


def whole_policy(request: GuardedRequest) -> Iterator[Requirement]:
    """Replacing a policy needs both privileges, because it can remove any setting."""
    for privilege in (Privilege.MAINTAIN, Privilege.WRITE):
        yield from queried_namespace("namespace", privilege)(request)


def queried(request: GuardedRequest) -> Iterator[Requirement]:
    """A query needs `read` on each table that it names. An unknown catalog looks like an unknown table.

    A caller of SHOW must be able to see the catalog or namespace; the service lists what the caller may see there.
    """
    body = request.model(QueryRequest)
    if (scope := request.services.queries.find_scope(body)) is not None:
        yield Requirement(privilege=None, on=Securable(scope.catalog), missing=scope.missing)
        if scope.namespace:
            on = request.access.namespace(scope.catalog, scope.namespace)
            yield Requirement(privilege=None, on=on, missing=scope.missing)
    for table, missing in request.services.queries.resolve(body):
        yield Requirement(privilege=None, on=Securable(table.catalog), missing=missing)
        on = request.access.table(table.catalog, table.name)
        yield Requirement(privilege=Privilege.READ, on=on, missing=missing)


def new_namespace(request: GuardedRequest) -> Iterator[Requirement]:
    """Creating a namespace needs `create` on its parent."""
    namespace = check_namespace(namespace_in(request.json.get("namespace"), "namespace"))
    return on_namespace(request, namespace[:-1], Privilege.CREATE)


def new_dotted_namespace(request: GuardedRequest) -> Iterator[Requirement]:
    """Creating a namespace and its missing parents needs `create` on its parent."""
    return on_namespace(request, parse_namespace(request.model(NamespaceIn).name)[:-1], Privilege.CREATE)


def new_dotted_table(request: GuardedRequest) -> Iterator[Requirement]:
    """Creating a table, and its namespace if it is missing, needs `create` on the namespace."""
    return on_namespace(request, TableName.parse(request.model(TableIn).name).namespace, Privilege.CREATE)


def new_hive_table(request: GuardedRequest) -> Iterator[Requirement]:
    """An upgrade creates a table with Hive's name in the namespace of Hive's database."""
    database, name = split_name(request.path["full_name"])
    yield from on_namespace(request, (database,), Privilege.CREATE)
    yield from on_table(request, TableName((database,), name), Privilege.READ)
    if need_write_privilege(request.model(UpgradeIn).properties):  # the table has Hive's rows from the start
        yield from on_table(request, TableName((database,), name), Privilege.WRITE)


def new_hive_view(request: GuardedRequest) -> Iterator[Requirement]:
    """A view is created in the namespace of Hive's database, or the one that was created before gets its new query."""
    database, name = split_name(request.path["full_name"])
    yield from on_namespace(request, (database,), Privilege.CREATE)
    yield from on_table(request, TableName((database,), name), Privilege.READ)
    yield from on_view(request, TableName((database,), name), Privilege.WRITE)


def converted(request: GuardedRequest) -> Iterator[Requirement]:
    """A conversion needs `read` on the Hive table, and `create` at the new table, by default in its database."""
    body = request.optional_model(ConvertIn)
    return _require_conversion(request, None if body is None else body.name)


def would_convert(request: GuardedRequest) -> Iterator[Requirement]:
    """The preview of a conversion needs the same privileges; its name comes from the query."""
    return _require_conversion(request, request.parameter("name"))


def _require_conversion(request: GuardedRequest, name: str | None) -> Iterator[Requirement]:
    database, own = split_name(request.path["full_name"])
    yield from on_table(request, TableName((database,), own), Privilege.READ)
    namespace = (database,) if name is None else TableName.parse(name).namespace
    yield from on_namespace(request, namespace, Privilege.CREATE)


def new_hive_tables(request: GuardedRequest) -> Iterator[Requirement]:
    """Upgrades of many tables: each name or pattern concerns the namespace of its database, or the whole catalog."""
    body = request.model(UpgradeManyIn)
    needed = [Privilege.READ] if body.dry_run else [Privilege.CREATE, Privilege.READ]
    if not body.dry_run and need_write_privilege(body.properties):
        needed.append(Privilege.WRITE)
    yield on_catalog(request)
    databases = {database_of(table) or "" for table in body.tables}
    if body.filter is not None:
        databases.add((body.filter.database or "").lower())
    for database in sorted(databases):
        for privilege in needed:
            yield from on_namespace(request, (database,) if database else (), privilege)


def registered(request: GuardedRequest) -> Iterator[Requirement]:
    """Registering a table can name metadata of any table in the warehouse, so it needs `read` on the catalog."""
    yield from on_namespace(request, decode_namespace(request.path["namespace"]), Privilege.CREATE)
    yield on_catalog(request, Privilege.READ)
    if flag_in(request.json, "overwrite"):
        yield from on_namespace(request, decode_namespace(request.path["namespace"]), Privilege.DROP)


def unregistered(request: GuardedRequest) -> Iterator[Requirement]:
    """Unregistering drops the table from the catalog and returns its last metadata."""
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on_table(request, named_in_path(request, "table"), privilege)


def brought_back(request: GuardedRequest) -> Iterator[Requirement]:
    """An undrop needs `read` on the dropped table, and `create` at its old and new place."""
    yield from dropped(Privilege.READ, Privilege.CREATE)(request)
    body = request.optional_model(UndropIn)
    if body is not None and body.to is not None:
        yield from on_namespace(request, TableName.parse(body.to).namespace, Privilege.CREATE)


def started_job(request: GuardedRequest) -> Iterator[Requirement]:
    """The kind of the job decides the privilege for its options: most only maintain a table, some delete rows."""
    options = request.model(StartJobIn).root.job_options
    return on_table(request, TableName.parse(request.path["table"]), options.privilege)


def registered_dotted(request: GuardedRequest) -> Iterator[Requirement]:
    """See `registered`; the route of the management API."""
    name = TableName.parse(request.path["table"])
    yield from on_namespace(request, name.namespace, Privilege.CREATE)
    yield on_catalog(request, Privilege.READ)
    if request.model(RegisterIn).overwrite:
        yield from on_namespace(request, name.namespace, Privilege.DROP)


def imported(request: GuardedRequest) -> Iterator[Requirement]:
    """An import can create and overwrite any table in the catalog, and makes the server open any address."""
    for privilege in (Privilege.READ, Privilege.CREATE, Privilege.DROP, Privilege.MAINTAIN):
        yield on_catalog(request, privilege)
    if request.model(ImportRequest).allow_locations:  # the same as a change of firn.storage.allowed-locations
        yield from server(Privilege.CREATE)(request)


def put_pipeline(request: GuardedRequest) -> Iterator[Requirement]:
    """A pipeline needs `write` on the tables that it writes, `create` for new ones, and `read` on those that it reads.

    A new version of an existing pipeline needs `write` on the tables of the version before, too. Python runs in an
    optimizer, with all of its rights, so whoever puts it needs those of an optimizer.
    """
    body, services = request.model(PutPipeline), request.services
    if any(definition.has_code for definition in body.tables):
        yield from server(Privilege.MAINTAIN)(request)
    catalog = CatalogName(body.catalog)
    yield catalog_requirement(catalog)
    with suppress(NotFound):
        yield from on_pipeline(request, services.pipelines.get(request.path["pipeline"]), Privilege.WRITE)
    targets = [*parse_definitions(body.tables)]
    written = [*targets, *(TableName.parse(table.quarantine) for table in body.tables if table.quarantine is not None)]
    inputs = {name for definition in body.tables for name in parse_inputs(definition)}
    for name in written:
        yield _require_in(request, catalog, name, Privilege.WRITE)
    for namespace in services.pipelines.list_new_namespaces(catalog, written):
        on = request.access.namespace(catalog, namespace)
        missing = NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")
        yield Requirement(privilege=Privilege.CREATE, on=on, missing=missing)
    others = {name for name, definition in parse_definitions(body.tables).items() if definition.columns}
    for name in sorted(inputs - (set(targets) - others), key=str):
        yield _require_in(request, catalog, name, Privilege.READ)


def _require_in(request: GuardedRequest, catalog: CatalogName, name: TableName, privilege: Privilege) -> Requirement:
    missing = NoSuchTable(f"Table does not exist: {name}")
    return Requirement(privilege=privilege, on=request.access.table(catalog, name), missing=missing)


def renamed(request: GuardedRequest) -> Iterator[Requirement]:
    """A rename needs the privileges of a copy, because others may access the table under its new name."""
    yield from _require_rename(request, on_table)


def renamed_view(request: GuardedRequest) -> Iterator[Requirement]:
    """A rename of a view or keyed table; see `renamed`."""
    yield from _require_rename(request, on_view)


def _require_rename(
    request: GuardedRequest, on: Callable[[GuardedRequest, TableName, Privilege], Iterator[Requirement]]
) -> Iterator[Requirement]:
    body = request.json
    source, to = name_of(body.get("source"), "source"), name_of(body.get("destination"), "destination")
    for privilege in (Privilege.DROP, Privilege.READ):
        yield from on(request, source, privilege)
    yield from on_namespace(request, to.namespace, Privilege.CREATE)


def committed(request: GuardedRequest) -> Iterator[Requirement]:
    """A commit needs `create` if it creates the table, `maintain` with a lease, and otherwise `write`."""
    name = named_in_path(request, "table")
    if is_creating(objects_in(request.json, "requirements")):
        return _require_creation(request, name)
    return on_table(request, name, _commit_privilege(request, name))


def new_table(request: GuardedRequest) -> Iterator[Requirement]:
    """Creating a table needs `create` on the namespace, or `maintain` with the lease of the run that writes it."""
    namespace = decode_namespace(request.path["namespace"])
    if "x-firn-lease" not in request.headers:  # most requests: the name does not matter
        return on_namespace(request, namespace, Privilege.CREATE)
    return _require_creation(request, TableName(namespace, text_in(request.json, "name")))


def _require_creation(request: GuardedRequest, name: TableName) -> Iterator[Requirement]:
    lease = request.headers.get("x-firn-lease")
    if lease is not None and request.services.pipeline_runs.covers(lease, request.catalog, name):
        return on_namespace(request, name.namespace, Privilege.MAINTAIN)
    return on_namespace(request, name.namespace, Privilege.CREATE)


def committed_together(request: GuardedRequest) -> Iterator[Requirement]:
    """A transaction needs the privilege of a commit on each table; it cannot create tables."""
    yield on_catalog(request)
    for change in objects_in(request.json, "table-changes"):
        name = name_of(change.get("identifier"), "identifier")
        yield from on_table(request, name, _commit_privilege(request, name))


def registered_at_quarantine(request: GuardedRequest) -> Iterator[Requirement]:
    """A drain needs `write`, or `maintain` with the lease of the table's stream."""
    return _drain_privilege(request, request.model(QuarantineWriterIn).stream_lease)


def added_log_columns(request: GuardedRequest) -> Iterator[Requirement]:
    """As at the quarantine: the owner of the table lets its drains add columns by `firn.log.schema`."""
    return _drain_privilege(request, request.model(LogColumnsIn).stream_lease)


def _drain_privilege(request: GuardedRequest, lease: str | None) -> Iterator[Requirement]:
    name = TableName.parse(request.path["table"])
    is_leased = lease is not None and request.services.stream_leases.find_leased(lease, request.catalog) == name
    return on_table(request, name, Privilege.MAINTAIN if is_leased else Privilege.WRITE)


def _commit_privilege(request: GuardedRequest, name: TableName) -> Privilege:
    """The commit itself checks the lease of a job; the lease of a stream is checked here."""
    if "x-firn-lease" in request.headers:
        covered = request.services.pipeline_runs.covers(request.headers["x-firn-lease"], request.catalog, name)
        return Privilege.WRITE if covered is False else Privilege.MAINTAIN
    lease = request.headers.get("x-firn-stream-lease")
    if lease is not None and request.services.stream_leases.covers(lease, request.catalog, name):
        return Privilege.MAINTAIN
    return Privilege.WRITE
