"""Tables of all kinds: lists, details, what comes next for them, and the jobs that people ask for."""

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
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep, VisibilityDep
from server.api.dropped import DropOut
from server.api.errors import refusals
from server.api.history_views import PinOut, SnapshotOut, VersionOut, pin_out, snapshots_out
from server.api.jobs import JobOut
from server.api.policies import PolicyChangeIn, SettingOut, settings_out
from server.api.table_views import (
    NextOut,
    PartitionOut,
    TableFilter,
    TableOut,
    TableRow,
    next_out,
    table_filter,
    table_out,
    table_rows,
)
from server.service.planning.planner import find_planned_relation
from server.service.tables.tables import TableDefinition

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


class ColumnIn(In):
    """A column of a table to be created; types are Iceberg's or SQL's: `long`, `decimal(10,2)`, `array<string>`."""

    name: str
    type: str
    comment: str | None = None


class TableIn(In):
    """A table to be created; with a primary key it is a keyed one."""

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
    asked: Annotated[TableFilter, Depends(table_filter)],
) -> PageOut[TableRow]:
    """By namespace and name; a keyed table is one entry, its stores are not listed.

    In another order, or by health, only tables that the planner has looked at: new ones are, within seconds.
    """
    return table_rows(services, visible, catalog, page, asked)


@router.post("", status_code=201, summary="Create a table", responses=refusals(400, 404, 409))
def create_table(services: ServicesDep, catalog: CatalogDep, body: TableIn) -> TableOut:
    """Create a plain table, or with a primary key a keyed one; its namespace is created if need be."""
    name = TableName.parse(body.name)
    check_settings(body.properties)
    schema = parse_schema([(column.name, column.type, column.comment) for column in body.columns])
    definition = TableDefinition(
        name=name,
        schema=schema,
        partition_spec=parse_partition_spec(schema, body.partition_by),
        properties=body.properties,
    )
    spec = _key_of(body)
    services.namespaces.ensure(catalog, name.namespace)
    if spec is not None:
        services.keyed.create(catalog, definition, spec)
    else:
        services.tables.create(catalog, definition)
    return table_out(services, catalog, name)


def _key_of(body: TableIn) -> KeySpec | None:
    """By the fields of the body or by the properties that an engine would use, with the same checks."""
    named = {PRIMARY_KEY: ",".join(body.primary_key), SEQUENCE_FIELD: body.sequence_field or ""}
    return KeySpec.from_properties({**body.properties, **{key: text for key, text in named.items() if text}})


@router.get("/{table}", summary="Show a table", responses=refusals(404))
def show_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> TableOut:
    """Everything about one table."""
    return table_out(services, catalog, table)


@router.delete("/{table}", summary="Drop a table", responses=refusals(403, 404, 409))
def drop_table(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, *, purge: Annotated[bool, Query()] = False
) -> DropOut:
    """Drop a table with its stores, or a view; it can be brought back while the catalog keeps it.

    With `purge` its files are deleted after that; without it they stay.
    """
    return DropOut.of(services.drop(catalog, table, purge=purge))


@router.get("/{table}/explain", summary="Explain the next job", responses=refusals(404))
def explain_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> NextOut:
    """Which job is due or why none is, what comes next and when."""
    return next_out(services.planner.outlook(catalog, table).decision)


@router.get("/{table}/pin", summary="Pin both stores for a reader", responses=refusals(404))
def pin_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> PinOut:
    """Both heads of one moment: what a reader that merges by itself reads."""
    return pin_out(services.keyed.pin(catalog, table))


@router.get("/{table}/snapshots", summary="List snapshots", responses=refusals(404))
def list_snapshots(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[SnapshotOut]:
    """Of the table, or of both stores; newest first."""
    return snapshots_out(services, catalog, table)


@router.get("/{table}/files", summary="Count files per partition", responses=refusals(404))
def list_files(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[PartitionOut]:
    """Of the table, or of both stores: how its live files lie."""
    return [PartitionOut.model_validate(one) for one in services.layouts.of(catalog, table)]


@router.get("/{table}/versions", summary="List versions", responses=refusals(404))
def list_versions(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    before: Annotated[int | None, Query(ge=0, le=HIGHEST_LONG)] = None,
) -> list[VersionOut]:
    """Pairs of store heads that readers have been offered, newest first."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        return [VersionOut.of(one) for one in uow.keyed.versions(relation.id, limit=100, before=before)]


@router.get("/{table}/jobs", summary="List a table's jobs", responses=refusals(404))
def list_table_jobs(services: ServicesDep, catalog: CatalogDep, table: TableDep, page: PagingDep) -> PageOut[JobOut]:
    """Newest first."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        found = uow.jobs.list(JobFilter(relation_id=relation.id), limit=page.size, cursor=page.cursor)
    return PageOut(items=[JobOut.of(job) for job in found.items], next_cursor=found.next_cursor)


@router.get("/{table}/policy", summary="Show a table's policy", responses=refusals(404))
def show_policy(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[SettingOut]:
    """Every setting with where it comes from."""
    return settings_out(services.planner.outlook(catalog, table).policy)


@router.patch("/{table}/policy", summary="Change a table's policy", responses=refusals(400, 404, 409))
def change_policy(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: PolicyChangeIn
) -> list[SettingOut]:
    """Set and remove policy settings of the table; the others stay. A key that is no policy setting is refused.

    The answer is the policy as it holds for the table afterwards.
    """
    check_policy(body.set)
    check_disjoint(body.set, body.remove)
    services.change_properties(catalog, table, updates=body.set, removals=body.remove)
    return settings_out(services.planner.outlook(catalog, table).policy)


@router.patch("/{table}/properties", summary="Change properties", responses=refusals(400, 404, 409))
def change_properties(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: PropertiesIn) -> TableOut:
    """Of a plain table, or of a keyed table's base store; policy settings are checked."""
    check_settings(body.set)
    check_disjoint(body.set, body.remove)
    services.change_properties(catalog, table, updates=body.set, removals=body.remove)
    return table_out(services, catalog, table)


def check_disjoint(updates: Mapping[str, str], removals: Sequence[str]) -> None:
    """Invalid when a property is both set and removed: the request says nothing of the order."""
    if both := sorted(set(updates) & set(removals)):
        raise Invalid(f"{', '.join(both)}: both set and removed")
