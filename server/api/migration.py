"""The migration of a metastore: how far it is, its waves, and both as CSV."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from catalog.access.privileges import Securable
from catalog.errors import NotFound
from catalog.hive.table_index import HiveTableFilter, MigrationCount, MigrationState
from catalog.hive.wave import Wave, estimate_remaining, tells_pace
from catalog.jobs.operation import BatchId, Operation
from catalog.names import CatalogName, TableName
from catalog.ports.store import UnitOfWork
from firn.protocol.answers.operations import BatchOut
from firn.protocol.base import Out
from server.api.csv_export import stream_csv
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, VisibilityDep
from server.api.errors import refusals
from server.api.hive_filter import HiveFilter
from server.api.hive_views import HiveTableOut, build_hive_tables
from server.api.upgrades import build_batch_out
from server.service.access.visibility import Visibility
from server.service.hive.hive_state import split_name
from server.service.services import Services

router = APIRouter(prefix="/catalogs/{catalog}/hive", tags=["hive"])
_PAGE = 500
_ENDS = 200
"""The number of operations whose ends tell the pace of a wave."""


class MigrationStateOut(Out):
    """The tables in one state, with their known bytes and rows. The bytes are null if no size is known."""

    state: MigrationState
    tables: int
    bytes: int | None
    rows: int


class MigrationBlockerOut(Out):
    """The tables whose first blocker has this code. The bytes are null if no size is known.

    The advice is that of the example.
    """

    code: str
    tables: int
    bytes: int | None
    message: str
    advice: str
    example: str


class MigrationOut(Out):
    """How far the matching tables are. `unknown_size` tables have no size in the metastore and no check yet.

    The bytes are null if no size is known.
    """

    tables: int
    bytes: int | None
    rows: int
    unknown_size: int
    checked: int
    published: int
    states: list[MigrationStateOut]
    blockers: list[MigrationBlockerOut]


class WaveOut(BatchOut):
    """A wave: a batch with a name, its selection, and the rule that stops it.

    `remaining_seconds` is an estimate from the tables that ended last. `stopped` says which failures stopped the wave.
    """

    name: str
    selection: dict[str, Any]
    stop_after: int | None
    stopped: str | None
    remaining_seconds: float | None


@router.get("/migration", summary="Show how far a migration is", responses=refusals(400, 404))
def show_migration(
    services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, only: Annotated[HiveFilter, Depends()]
) -> MigrationOut:
    """Count the matching tables of the index by state and blocker, without a call to the metastore.

    A caller counts the tables of databases that the caller may read as a whole.
    """
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        counts = [
            count for count in uow.hive.count(catalog, only.build()) if _may_count(visible, catalog, count.database)
        ]
        return MigrationOut(
            tables=sum(count.tables for count in counts),
            bytes=_sum_bytes(counts),
            rows=sum(count.rows for count in counts),
            unknown_size=sum(count.unknown for count in counts),
            checked=sum(count.checked for count in counts),
            published=sum(count.published for count in counts),
            states=_count_states(counts),
            blockers=_count_blockers(uow, catalog, counts),
        )


@router.get("/migration/csv", summary="Export the tables of a migration", responses=refusals(400, 404))
def export_migration(
    services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, only: Annotated[HiveFilter, Depends()]
) -> StreamingResponse:
    """Export all matching tables as CSV, with state, sizes, blockers and their fixes."""
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
    rows = (_to_csv_row(table) for table in _list_all(services, visible, catalog, only.build()))
    return stream_csv("migration.csv", _CSV_COLUMNS, rows)


@router.get("/waves", summary="List waves", responses=refusals(404))
def list_waves(services: ServicesDep, visible: VisibilityDep, catalog: CatalogDep, page: PagingDep) -> PageOut[WaveOut]:
    """List the waves of upgrades and checks, newest first. A caller sees the waves of visible databases."""
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        waves = uow.waves.list(catalog, limit=page.size, cursor=page.cursor)
        items = [build_wave(uow, wave) for wave in waves.items if _may_see(uow, visible, wave)]
    return PageOut(items=[wave for wave in items if wave is not None], next_cursor=waves.next_cursor)


@router.get("/waves/{batch}", summary="Show a wave", responses=refusals(404))
def show_wave(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> WaveOut:
    """Show a wave in numbers; `GET /operations?batch=` lists its tables."""
    with services.database.reading() as uow:
        stored = uow.waves.find(BatchId(batch))
        wave = None if stored is None or stored.catalog != catalog else build_wave(uow, stored)
    if wave is None:
        raise NotFound(f"catalog {catalog} has no wave {batch}", hint="`firn hive waves` lists the waves")
    return wave


@router.get("/waves/{batch}/csv", summary="Export the report of a wave", responses=refusals(404))
def export_wave(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> StreamingResponse:
    """Export one line for each table of the wave, with its outcome, sizes, and problems with their fixes."""
    show_wave(services, catalog, batch)
    rows = (_to_report_row(operation) for operation in _list_operations(services, BatchId(batch)))
    return stream_csv(f"wave-{batch}.csv", _REPORT_COLUMNS, rows)


def _may_count(visible: Visibility, catalog: CatalogName, database: str) -> bool:
    """A count of the matching tables would tell the names of tables that the caller may not see."""
    return visible.readable(Securable(catalog, (database,)))


def _count_states(counts: Sequence[MigrationCount]) -> list[MigrationStateOut]:
    by_state = {state: [count for count in counts if count.state is state] for state in MigrationState}
    return [
        MigrationStateOut(
            state=state,
            tables=sum(count.tables for count in same),
            bytes=_sum_bytes(same),
            rows=sum(count.rows for count in same),
        )
        for state, same in by_state.items()
    ]


def _sum_bytes(counts: Sequence[MigrationCount]) -> int | None:
    """The known bytes; None if there are tables, and the size of none of them is known."""
    tables, unknown = (sum(getattr(count, name) for count in counts) for name in ("tables", "unknown"))
    return None if tables and tables == unknown else sum(count.bytes for count in counts)


def _count_blockers(
    uow: UnitOfWork, catalog: CatalogName, counts: Sequence[MigrationCount]
) -> list[MigrationBlockerOut]:
    by_code = defaultdict[str, list[MigrationCount]](list)
    for count in counts:
        if count.blocker and count.state is not MigrationState.UPGRADED:
            by_code[count.blocker].append(count)
    blockers = []
    for code, same in by_code.items():
        example = uow.hive.blocked_by(catalog, code, same[0].database)
        blocker = None if example is None else example.all_blockers[0]
        blockers.append(
            MigrationBlockerOut(
                code=code,
                tables=sum(count.tables for count in same),
                bytes=_sum_bytes(same),
                message="" if blocker is None else blocker.message,
                advice="" if blocker is None else blocker.advice,
                example="" if example is None else example.full_name,
            )
        )
    return sorted(blockers, key=lambda blocker: (-blocker.tables, blocker.code))


def _list_all(
    services: Services, visible: Visibility, catalog: CatalogName, only: HiveTableFilter
) -> Iterator[HiveTableOut]:
    """Yield all matching tables page by page, each page in a transaction of its own."""
    cursor: str | None = None
    while True:
        with services.database.reading() as uow:
            page = uow.hive.list(catalog, only, limit=_PAGE, cursor=cursor)
            seen = [table for table in page.items if visible.table(catalog, TableName((table.database,), table.name))]
            tables = build_hive_tables(uow, catalog, seen)
        yield from tables
        cursor = page.next_cursor
        if cursor is None:
            return


_FACTS = ("format", "bytes", "rows", "files", "partitions")
_CSV_COLUMNS = (
    "table",
    "state",
    *_FACTS,
    "last_write",
    "writer",
    "blockers",
    "fix",
    "failure",
    "upgraded_to",
    "published_at",
)


def _to_csv_row(table: HiveTableOut) -> list[object]:
    return [
        f"{table.database}.{table.name}",
        table.state,
        *(getattr(table, name) for name in _FACTS),
        table.last_write,
        table.writer,
        " ".join(blocker.code for blocker in table.blockers),
        " ".join(blocker.advice for blocker in table.blockers),
        table.failure,
        table.upgraded_to,
        table.published_at,
    ]


def _may_see(uow: UnitOfWork, visible: Visibility, wave: Wave) -> bool:
    if visible.readable(Securable(wave.catalog)):
        return True
    databases = {split_name(target)[0] for _, target in uow.operations.targets(wave.batch)}
    return all(_may_count(visible, wave.catalog, database) for database in databases)


def build_wave(uow: UnitOfWork, wave: Wave) -> WaveOut | None:
    """Build the answer; None for a wave whose operations are too old to be kept."""
    try:
        batch = build_batch_out(wave.batch, uow.operations.tally(wave.batch))
    except NotFound:
        return None
    is_going_on = batch.unfinished > batch.outcomes.get("paused", 0)
    remaining = _estimate_remaining(uow, wave, batch.unfinished) if is_going_on else None
    return WaveOut(
        **dict(batch),
        name=wave.name,
        selection=dict(wave.selection),
        stop_after=wave.stop_after,
        stopped=wave.stopped,
        remaining_seconds=None if remaining is None else remaining.total_seconds(),
    )


def _estimate_remaining(uow: UnitOfWork, wave: Wave, unfinished: int) -> timedelta | None:
    """Estimate by the pace of the wave; at its beginning, by that of the wave before and by what runs first."""
    ends = uow.operations.last_ends(wave.batch, limit=_ENDS)
    if tells_pace(ends):
        return estimate_remaining(unfinished, ends)
    before = uow.operations.batch_before(wave.batch, wave.catalog, wave.kind)
    if before is None:
        return None
    ahead = uow.operations.count_ahead(wave.batch)
    return estimate_remaining(unfinished + ahead, uow.operations.last_ends(before, limit=_ENDS))


def _list_operations(services: Services, batch: BatchId) -> Iterator[Operation]:
    cursor: str | None = None
    while True:
        with services.database.reading() as uow:
            page = uow.operations.list(batch=batch, limit=_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


_RESULTS = ("partitions", "files", "bytes", "rows")
_REPORT_COLUMNS = ("table", "outcome", "primary_key", *_RESULTS, "blockers", "problem", "fix", "ended_at")


def _to_report_row(operation: Operation) -> list[object]:
    result, key = operation.result, operation.params.get("key") or {}
    blocked = [check for check in result.get("checks", ()) if check["status"] == "blocked"]
    return [
        operation.target,
        operation.outcome,
        key.get("firn.primary-key"),
        *(result.get(name) for name in _RESULTS),
        " ".join(check["code"] for check in blocked),
        "; ".join(check["message"] for check in blocked) or operation.error,
        " ".join(check["advice"] for check in blocked) or operation.hint,
        operation.ended_at,
    ]
