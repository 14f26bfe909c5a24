"""The history of tables and views, and the comparison of two states of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from catalog.history.lineage import Totals
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import read_number
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.base import Out
from firn.protocol.history import Topic
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.history_views import ChangeOut, EventOut, SnapshotOut, build_events_page, build_snapshot_out
from server.api.table_views import format_snapshot_id
from server.service.planning.planner import find_planned_relation
from server.service.tables.comparison import Comparison, Side

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["history"])

MOST_SNAPSHOTS = 100


class TotalsOut(Out):
    """Rows, files and bytes of one state of a table."""

    rows: int
    files: int
    bytes: int

    @classmethod
    def of(cls, totals: Totals) -> TotalsOut:
        """Build the answer from the totals of a state."""
        return cls(rows=totals.rows, files=totals.files, bytes=totals.bytes)


class SideOut(Out):
    """One of the two compared states."""

    store: str
    snapshot_id: str | None
    schema_id: int | None
    entry: int | None
    committed_at: datetime | None
    totals: TotalsOut


class MovedOut(Out):
    """The sums of the commits that only one state has, and the newest of these commits."""

    commits: int
    added_rows: int
    removed_rows: int
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int
    newest: list[SnapshotOut]


class ComparisonOut(Out):
    """Two states: their differences, and the commits that only one of them has."""

    first: SideOut
    second: SideOut
    changes: list[ChangeOut]
    unknown: list[str]
    only_in_first: MovedOut
    only_in_second: MovedOut


@router.get("/{table}/history", summary="List versions: commits with what each changed", responses=refusals(404))
def list_history(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    page: PagingDep,
    kind: Annotated[list[Topic] | None, Query(description="only commits about one of these topics")] = None,
) -> PageOut[EventOut]:
    """List the commits of a table, of a keyed table with its stores, or of a view; newest first."""
    with services.database.reading() as uow:
        ids = _find_relation_ids(uow, catalog, table)
        return build_events_page(
            uow, uow.events.list(None, ids, limit=page.size, cursor=page.cursor, topics=kind or ())
        )


def _find_relation_ids(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> list[RelationId]:
    uow.catalogs.get(catalog)
    relation = uow.relations.find(catalog, name)
    if relation is not None and relation.kind is RelationKind.VIEW:
        return [relation.id]
    table = find_planned_relation(uow, catalog, name)
    return [table.id, *(store.id for store in uow.relations.stores_of(table.id))]


@router.get("/{table}/compare", summary="Compare two states", responses=refusals(400, 404))
def compare(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    from_: Annotated[str, Query(alias="from", description="a snapshot, a branch or tag, or @ENTRY of the history")],
    to: Annotated[str, Query()] = "main",
) -> ComparisonOut:
    """Compare two states: columns, properties, layout, rows, and the commits between them."""
    return _describe_comparison(services.comparisons.compare(catalog, table, from_, to))


def _describe_comparison(comparison: Comparison) -> ComparisonOut:
    first, second = comparison.first, comparison.second
    return ComparisonOut(
        first=_describe_side(first),
        second=_describe_side(second),
        changes=[ChangeOut.of(change) for change in comparison.changes],
        unknown=list(comparison.unknown),
        only_in_first=build_moved_out(str(first.store.kind), comparison.only_in_first, first.metadata),
        only_in_second=build_moved_out(
            str(comparison.second.store.kind), comparison.only_in_second, comparison.second.metadata
        ),
    )


def _describe_side(side: Side) -> SideOut:
    return SideOut(
        store=str(side.store.kind),
        snapshot_id=format_snapshot_id(side.snapshot_id),
        schema_id=side.schema_id,
        entry=None if side.event is None else side.event.id,
        committed_at=None if side.event is None else side.event.committed_at,
        totals=TotalsOut.of(side.totals),
    )


def build_moved_out(role: str, snapshots: Sequence[Json], metadata: Json) -> MovedOut:
    """Sum up snapshots, which come newest first."""

    def total(key: str) -> int:
        return sum(read_number(snapshot.get("summary") or {}, key) for snapshot in snapshots)

    return MovedOut(
        commits=len(snapshots),
        added_rows=total("added-records"),
        removed_rows=total("deleted-records"),
        added_files=total("added-data-files"),
        removed_files=total("deleted-data-files"),
        added_bytes=total("added-files-size"),
        removed_bytes=total("removed-files-size"),
        newest=[build_snapshot_out(role, snapshot, metadata) for snapshot in snapshots[:MOST_SNAPSHOTS]],
    )
