"""Hive tables of a catalog's metastore: listed from the index, checked, upgraded and synced."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from catalog.access.privileges import Securable
from catalog.hive.key_suggestions import Confidence
from catalog.hive.table_index import HiveTableOrder
from catalog.keyed.spec import KeyScope, KeySpec
from catalog.names import TableName
from catalog.policy.policy import check_settings
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.operations import OperationOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.api.hive_filter import HiveFilter
from server.api.hive_views import (
    ColumnDifferenceOut,
    DatabaseOut,
    HeldBackOut,
    HiveEventOut,
    HiveTableDetailOut,
    HiveTableOut,
    SupersededDirectoriesOut,
    build_hive_tables,
    load_column_differences,
    load_lock_warning,
    load_publish_request,
    load_unpublished,
)
from server.api.jobs import build_job_out
from server.api.operations import build_operation_out
from server.service.hive.hive_state import find_linked_relation, split_name
from server.service.hive.results import SyncOutcome
from server.service.hive.superseded_directories import list_superseded_directories
from server.service.hive.upgrade_check import Report

router = APIRouter(prefix="/catalogs/{catalog}/hive", tags=["hive"])
FullName = Annotated[str, Path(description="DATABASE.TABLE")]


class ColumnOut(Out):
    """A column, with the type in Hive's spelling."""

    name: str
    type: str
    comment: str | None
    partition: bool


class CheckOut(Out):
    """One check and its result; `status` is `ok`, `warn` or `blocked`."""

    code: str
    status: str
    message: str
    advice: str


class KeySuggestionOut(Out):
    """A key to begin with, and what speaks for it. Only a check of every row proves that a key is unique."""

    columns: list[str]
    confidence: Confidence
    evidence: list[str]


class DisprovedKeyOut(Out):
    """Columns that look like a key, and what a sample of rows says against them."""

    columns: list[str]
    reason: str


class ReportOut(Out):
    """The pre-flight report of an upgrade. `column_differences` are those of a table that is upgraded already."""

    table: str
    target: str
    format: str
    location: str
    columns: list[ColumnOut]
    partitions: int
    files: int
    bytes: int
    primary_key_candidates: list[str]
    """The columns that may be in a key."""
    key_suggestions: list[KeySuggestionOut]
    """The most probable keys, the best first; none where no column looks like one."""
    disproved_keys: list[DisprovedKeyOut]
    """Keys that names or the metastore speak for, and that sampled rows disprove."""
    checks: list[CheckOut]
    eligible: bool
    convertible: bool
    column_differences: list[ColumnDifferenceOut]

    @classmethod
    def of(cls, report: Report, differences: list[ColumnDifferenceOut]) -> ReportOut:
        """Build the answer from a report."""
        table = report.table
        in_files = [(column, False) for column in table.columns]
        columns = [*in_files, *((column, True) for column in table.partition_columns)]
        return cls(
            table=table.full_name,
            target=str(report.target),
            format=report.format,
            location=table.location,
            columns=[
                ColumnOut(name=column.name, type=column.type, comment=column.comment, partition=partition)
                for column, partition in columns
            ],
            partitions=report.partitions,
            files=report.files,
            bytes=report.bytes,
            primary_key_candidates=list(report.candidates),
            key_suggestions=[KeySuggestionOut.model_validate(item) for item in report.key_suggestions],
            disproved_keys=[DisprovedKeyOut.model_validate(item) for item in report.disproved_keys],
            checks=[CheckOut.model_validate(check) for check in report.checks],
            eligible=report.eligible,
            convertible=report.convertible,
            column_differences=differences,
        )


class CheckIn(In):
    """The key that the server should check, and the properties that the table would have."""

    primary_key: list[str] = []
    properties: dict[str, str] = {}


class UpgradeIn(In):
    """The key and properties of the upgraded table; a primary key makes it a keyed table."""

    primary_key: list[str] = []
    sequence_field: str | None = None
    key_scope: KeyScope = KeyScope.GLOBAL
    properties: dict[str, str] = {}


class SyncOut(Out):
    """The result of a sync, and the job that continues it. Request a `waiting` sync again later.

    `outcome` is for programs, `message` for people. A `conflict` may concern only the partitions that the sync skipped.
    """

    table: str
    outcome: SyncOutcome
    message: str
    conflict: bool
    waiting: bool
    changed: bool
    held_back: list[HeldBackOut]
    job: JobOut | None


class RefreshOut(Out):
    """The result of listing the metastore."""

    databases: int
    tables: int
    changed: int


@router.get("", summary="List Hive tables", responses=refusals(404))
def list_hive(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    only: Annotated[HiveFilter, Depends()],
    sort: Annotated[HiveTableOrder, Query()] = HiveTableOrder.NAME,
) -> PageOut[HiveTableOut]:
    """List tables from Firn's index, without a call to the metastore.

    `out_of_sync` selects upgraded tables that differ from Hive. The order by a number begins with the largest.
    """
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        indexed = visible.page(
            lambda size, start: uow.hive.list(catalog, only.build(), order=sort, limit=size, cursor=start),
            lambda table: visible.table(catalog, TableName((table.database,), table.name)),
            within=Securable(catalog),
            limit=page.size,
            cursor=page.cursor,
        )
        items = build_hive_tables(uow, catalog, indexed.items)
    return PageOut(items=items, next_cursor=indexed.next_cursor)


@router.get("/databases", summary="List Hive databases", responses=refusals(404))
def list_databases(services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep) -> list[DatabaseOut]:
    """List the databases of the metastore that have tables."""
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        databases = uow.hive.databases(catalog)
    return [
        DatabaseOut.model_validate(database) for database in databases if visible.namespace(catalog, (database.name,))
    ]


@router.post("/refresh", summary="List the metastore now", responses=refusals(400, 404, 503))
def refresh(services: ServicesDep, catalog: CatalogDep) -> RefreshOut:
    """Update the index from the metastore now."""
    status = services.hive.index.refresh(services.namespaces.catalog(catalog))
    return RefreshOut(databases=status.databases, tables=status.tables, changed=status.changed)


@router.get("/{full_name}", summary="Show a Hive table", responses=refusals(404))
def show_hive(services: ServicesDep, catalog: CatalogDep, full_name: FullName) -> HiveTableDetailOut:
    """Show a table from the index. The server asks the metastore for a table that the index does not have."""
    database, name = split_name(full_name)
    with services.database.reading() as uow:
        indexed = uow.hive.find(catalog, database, name)
        if indexed is not None:
            table = build_hive_tables(uow, catalog, [indexed])[0]
            return HiveTableDetailOut(
                **dict(table),
                column_differences=load_column_differences(uow, catalog, indexed.full_name),
                unpublished=load_unpublished(uow, catalog, indexed.full_name),
                publish_request=load_publish_request(uow, catalog, indexed.full_name),
                lock_warning=load_lock_warning(uow, catalog, indexed.full_name),
            )
    services.hive.index.metastore(catalog).table(database, name)
    services.hive.index.refresh(services.namespaces.catalog(catalog))
    return show_hive(services, catalog, full_name)


@router.get("/{full_name}/history", summary="List what syncs and publishes did", responses=refusals(404))
def list_hive_events(
    services: ServicesDep,
    catalog: CatalogDep,
    full_name: FullName,
    page: PagingDep,
    partition: Annotated[str | None, Query(description="Only this partition, such as day=2026-11-21.")] = None,
) -> PageOut[HiveEventOut]:
    """List events per partition, newest first. The server keeps only the newest of each table."""
    with services.database.reading() as uow:
        relation = find_linked_relation(uow, catalog, full_name)
        events = uow.baselines.events(relation.id, partition=partition, limit=page.size, cursor=page.cursor)
    return PageOut(items=[HiveEventOut.of(event) for event in events.items], next_cursor=events.next_cursor)


@router.get("/{full_name}/superseded-directories", summary="Show superseded directories", responses=refusals(404))
def show_superseded_directories(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName
) -> SupersededDirectoriesOut:
    """Show the directories that publishing replaced, with their bytes, without listing any directory."""
    with services.database.reading() as uow:
        return SupersededDirectoriesOut.model_validate(
            list_superseded_directories(uow, catalog, ".".join(split_name(full_name)))
        )


@router.post("/{full_name}/check", summary="Check whether a table can be upgraded", responses=refusals(400, 404, 503))
def check(services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: CheckIn | None = None) -> ReportOut:
    """Check whether an upgrade is possible. Changes nothing."""
    request = body or CheckIn()
    check_settings(request.properties)
    report = services.hive.checks.report(catalog, full_name, request.primary_key, request.properties)
    with services.database.reading() as uow:
        differences = load_column_differences(uow, catalog, report.table.full_name)
    return ReportOut.of(report, differences)


@router.post(
    "/{full_name}/upgrade", status_code=202, summary="Upgrade a table in place", responses=refusals(400, 404, 409, 503)
)
def upgrade(services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: UpgradeIn) -> OperationOut:
    """Start an upgrade. The operation tells its progress."""
    spec = None
    if body.primary_key:
        spec = KeySpec(primary_key=tuple(body.primary_key), sequence_field=body.sequence_field, scope=body.key_scope)
    operation = services.hive.operations.start(catalog, full_name, spec, body.properties)
    services.hive.poke()
    return build_operation_out(operation)


@router.post("/{full_name}/sync", summary="Sync a table now", responses=refusals(404, 503))
def sync(
    services: ServicesDep,
    catalog: CatalogDep,
    full_name: FullName,
    *,
    everything: Annotated[bool, Query()] = False,
    only_schema: Annotated[bool, Query()] = False,
) -> SyncOut:
    """Take over the changes of Hive-side writers.

    With `everything` the server lists every directory, whatever the metastore reports; with `only_schema` it lists
    none.
    """
    result = services.hive.sync_planner.sync_hive_table(
        catalog, full_name, everything=everything, only_schema=only_schema
    )
    return SyncOut(
        table=result.table,
        outcome=result.outcome,
        message=result.message,
        conflict=result.conflict,
        waiting=result.waits,
        changed=result.changed,
        held_back=HeldBackOut.of(result.held_back),
        job=None if result.job is None else build_job_out(result.job),
    )
