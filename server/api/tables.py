"""Tables of all kinds: lists, details, the planner's next step, and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from catalog.errors import Invalid
from catalog.history.schema_text import parse_partition_spec, parse_schema
from catalog.iceberg.json import HIGHEST_LONG
from catalog.keyed.spec import PRIMARY_KEY, SEQUENCE_FIELD, KeySpec
from catalog.names import TableName
from catalog.policy.policy import check_policy, check_settings
from catalog.ports.work import JobFilter
from firn.protocol.answers.dropped import DropOut
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.tables import NextOut, TableOut, TableRow
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep, VisibilityDep
from server.api.dropped import build_drop_out
from server.api.errors import refusals
from server.api.history_views import SnapshotOut, VersionOut, load_snapshots_out
from server.api.jobs import build_job_out
from server.api.policies import PolicyChangeIn, SettingOut, build_settings_out
from server.api.table_details import build_next_out, load_table_out
from server.api.table_views import PartitionOut, TableFilter, load_table_rows, parse_table_filter
from server.service.planning.planner import find_planned_relation
from server.service.tables.tables import TableDefinition

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


class ColumnIn(In):
    """A column of a table to be created; types are Iceberg's or SQL's: `long`, `decimal(10,2)`, `array<string>`."""

    name: str
    type: str
    comment: str | None = None


class TableIn(In):
    """A table to be created; a primary key makes it a keyed table."""

    name: str
    columns: list[ColumnIn]
    primary_key: list[str] = []
    sequence_field: str | None = None
    partition_by: list[str] = []
    properties: dict[str, str] = {}


class PropertiesIn(In):
    """Properties to set and to remove."""

    set: dict[str, str] = {}
    remove: list[str] = []


@router.get("", summary="List tables", responses=refusals(404))
def list_tables(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    only: Annotated[TableFilter, Depends(parse_table_filter)],
) -> PageOut[TableRow]:
    """List tables by namespace and name. A keyed table is one entry; its stores are not listed.

    Other orders and the health filter list only tables that the planner has assessed, which takes seconds for new ones.
    """
    return load_table_rows(services, visible, catalog, page, only)


@router.post("", status_code=201, summary="Create a table", responses=refusals(400, 404, 409))
def create_table(services: ServicesDep, catalog: CatalogDep, body: TableIn) -> TableOut:
    """Create a plain table, or with a primary key a keyed one. The server creates a missing namespace."""
    name = TableName.parse(body.name)
    check_settings(body.properties)
    schema = parse_schema([(column.name, column.type, column.comment) for column in body.columns])
    definition = TableDefinition(
        name=name,
        schema=schema,
        partition_spec=parse_partition_spec(schema, body.partition_by),
        properties=body.properties,
    )
    spec = _build_key_spec(body)
    services.namespaces.ensure(catalog, name.namespace)
    if spec is not None:
        services.keyed.create(catalog, definition, spec)
    else:
        services.tables.create(catalog, definition)
    return load_table_out(services, catalog, name)


def _build_key_spec(body: TableIn) -> KeySpec | None:
    """Build the key from the fields of the body, or from the properties that engines use; both have the same checks."""
    fields = {PRIMARY_KEY: ",".join(body.primary_key), SEQUENCE_FIELD: body.sequence_field or ""}
    return KeySpec.from_properties({**body.properties, **{key: text for key, text in fields.items() if text}})


@router.get("/{table}", summary="Show a table", responses=refusals(404))
def show_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> TableOut:
    """Show all details of one table."""
    return load_table_out(services, catalog, table)


@router.delete("/{table}", summary="Drop a table", responses=refusals(403, 404, 409))
def drop_table(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, purge: Annotated[bool, Query()] = False
) -> DropOut:
    """Drop a table with its stores, or a view. It can be restored until its retention ends.

    With `purge` the server then deletes its files; otherwise they stay.
    """
    return build_drop_out(services.drop(catalog, table, purge=purge))


@router.get("/{table}/explain", summary="Explain the next job", responses=refusals(404))
def explain_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> NextOut:
    """Explain which job is due or why none is, and which job comes next and when."""
    return build_next_out(services.planner.outlook(catalog, table).decision)


@router.get("/{table}/snapshots", summary="List snapshots", responses=refusals(404))
def list_snapshots(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[SnapshotOut]:
    """List the snapshots of the table, or of both stores; newest first."""
    return load_snapshots_out(services, catalog, table)


@router.get("/{table}/files", summary="Count files per partition", responses=refusals(404))
def list_files(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[PartitionOut]:
    """Count the live files of the table, or of both stores, by partition."""
    return [
        PartitionOut.model_validate(partition)
        for partition in services.partition_layouts.list_partitions(catalog, table)
    ]


@router.get("/{table}/versions", summary="List versions", responses=refusals(404))
def list_versions(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    before: Annotated[int | None, Query(ge=0, le=HIGHEST_LONG)] = None,
) -> list[VersionOut]:
    """List the pairs of snapshots that readers of a keyed table could read together, newest first."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        return [VersionOut.of(version) for version in uow.keyed.versions(relation.id, limit=100, before=before)]


@router.get("/{table}/jobs", summary="List a table's jobs", responses=refusals(404))
def list_table_jobs(services: ServicesDep, catalog: CatalogDep, table: TableDep, page: PagingDep) -> PageOut[JobOut]:
    """List the jobs of a table, newest first."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        jobs = uow.jobs.list(JobFilter(relation_id=relation.id), limit=page.size, cursor=page.cursor)
    return PageOut(items=[build_job_out(job) for job in jobs.items], next_cursor=jobs.next_cursor)


@router.get("/{table}/policy", summary="Show a table's policy", responses=refusals(404))
def show_policy(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[SettingOut]:
    """Show every setting with its value and source."""
    return build_settings_out(services.planner.outlook(catalog, table).policy)


@router.patch("/{table}/policy", summary="Change a table's policy", responses=refusals(400, 404, 409))
def change_policy(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: PolicyChangeIn
) -> list[SettingOut]:
    """Set and remove policy settings of the table; the others stay. The server refuses unknown keys.

    The answer is the resulting policy of the table.
    """
    check_policy(body.set)
    check_disjoint(body.set, body.remove)
    services.change_properties(catalog, table, updates=body.set, removals=body.remove)
    return build_settings_out(services.planner.outlook(catalog, table).policy)


@router.patch("/{table}/properties", summary="Change properties", responses=refusals(400, 404, 409))
def change_properties(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: PropertiesIn) -> TableOut:
    """Change properties of a plain table, or of a keyed table's base store. The server checks policy settings."""
    check_settings(body.set)
    check_disjoint(body.set, body.remove)
    services.change_properties(catalog, table, updates=body.set, removals=body.remove)
    return load_table_out(services, catalog, table)


def check_disjoint(updates: Mapping[str, str], removals: Sequence[str]) -> None:
    """Invalid when a property is both set and removed, because the request defines no order."""
    if both := sorted(set(updates) & set(removals)):
        raise Invalid(f"the request both sets and removes {', '.join(both)}")
