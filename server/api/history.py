"""What happened to tables and views, and two of their states compared."""

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
from firn.protocol.history import Topic
from server.api.deps import CatalogDep, Out, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.history_views import ChangeOut, EventOut, SnapshotOut, events_page, snapshot_out
from server.api.table_views import id_text
from server.service.planning.planner import find_planned_relation
from server.service.tables.comparison import Comparison, Side

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["history"])

MOST_SNAPSHOTS = 100


class TotalsOut(Out):
    """What the table holds at one state."""

    rows: int
    files: int
    bytes: int

    @classmethod
    def of(cls, totals: Totals) -> TotalsOut:
        """Totals as they are shown."""
        return cls(rows=totals.rows, files=totals.files, bytes=totals.bytes)


class SideOut(Out):
    """One of two states."""

    store: str
    snapshot_id: str | None
    schema_id: int | None
    entry: int | None
    committed_at: datetime | None
    totals: TotalsOut


class MovedOut(Out):
    """What commits that only one state has have added and removed; the newest of them."""

    commits: int
    added_rows: int
    removed_rows: int
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int
    newest: list[SnapshotOut]


class ComparisonOut(Out):
    """Two states: what is different, and the commits that only one of them has."""

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
    kind: Annotated[list[Topic] | None, Query(description="only what was about one of these")] = None,
) -> PageOut[EventOut]:
    """Of a table, of a keyed table with its stores, or of a view; newest first."""
    with services.database.reading() as uow:
        ids = _relations(uow, catalog, table)
        return events_page(uow.events.list(None, ids, limit=page.size, cursor=page.cursor, topics=kind or ()))


def _relations(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> list[RelationId]:
    uow.catalogs.get(catalog)
    found = uow.relations.find(catalog, name)
    if found is not None and found.kind is RelationKind.VIEW:
        return [found.id]
    relation = find_planned_relation(uow, catalog, name)
    return [relation.id, *(store.id for store in uow.relations.stores_of(relation.id))]


@router.get("/{table}/compare", summary="Compare two states", responses=refusals(400, 404))
def compare(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    one: Annotated[str, Query(alias="from", description="a snapshot, a branch or tag, or @ENTRY of the history")],
    to: Annotated[str, Query()] = "main",
) -> ComparisonOut:
    """What leads from one state to the other: columns, properties, layout, rows, and the commits between."""
    found = services.comparisons.of(catalog, table, one, to)
    return _comparison(found)


def _comparison(found: Comparison) -> ComparisonOut:
    return ComparisonOut(
        first=_side(found.first),
        second=_side(found.second),
        changes=[ChangeOut.of(change) for change in found.changes],
        unknown=list(found.unknown),
        only_in_first=moved_out(str(found.first.store.kind), found.only_in_first, found.first.metadata),
        only_in_second=moved_out(str(found.second.store.kind), found.only_in_second, found.second.metadata),
    )


def _side(side: Side) -> SideOut:
    return SideOut(
        store=str(side.store.kind),
        snapshot_id=id_text(side.snapshot_id),
        schema_id=side.schema_id,
        entry=None if side.event is None else side.event.id,
        committed_at=None if side.event is None else side.event.committed_at,
        totals=TotalsOut.of(side.totals),
    )


def moved_out(role: str, snapshots: Sequence[Json], metadata: Json) -> MovedOut:
    """Snapshots, newest first, with their sums."""

    def total(key: str) -> int:
        return sum(read_number(one.get("summary") or {}, key) for one in snapshots)

    return MovedOut(
        commits=len(snapshots),
        added_rows=total("added-records"),
        removed_rows=total("deleted-records"),
        added_files=total("added-data-files"),
        removed_files=total("deleted-data-files"),
        added_bytes=total("added-files-size"),
        removed_bytes=total("removed-files-size"),
        newest=[snapshot_out(role, one, metadata) for one in snapshots[:MOST_SNAPSHOTS]],
    )
