"""The index of Hive tables, and the baselines and links of upgraded tables, in the database."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime

import orjson
from sqlalchemy import ColumnElement, and_, case, delete, false, func, insert, not_, or_, select, tuple_, update

from catalog.hive.checkpoint import PublishPlan, SyncPlan, plan_from_json
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import HiveLink
from catalog.hive.table_index import DatabaseCounts, HiveTableState, IndexedBlocker, IndexedTable, LinkSummary
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.jobs.operation import OperationId
from catalog.names import CatalogName, RelationId
from catalog.ports.page import Page
from firn.protocol.operations import OperationKind, OperationStatus
from server.store import cursor as cursors
from server.store.catalogs import starts_with
from server.store.hive_rows import HiveEventRow, HiveLinkRow, HiveTableRow, PartitionBaselineRow, StagedBaselinesRow
from server.store.job_rows import OperationRow
from server.store.rows import RelationRow
from server.store.session import ReadSession

EVENTS_KEPT = 2_000
"""The number of events that the server keeps per table."""
_EVENT = tuple(field.name for field in fields(HiveEvent))


@dataclass(frozen=True)
class SqlHiveTables:
    """See catalog.ports.hive.HiveTables."""

    session: ReadSession

    def replace(self, catalog: CatalogName, database: str, tables: Sequence[IndexedTable]) -> int:
        """Replace the index of one database; returns the number of changed tables."""
        mine = (HiveTableRow.catalog == catalog, HiveTableRow.database == database)
        old = {row.name: row for row in self.session.scalars(select(HiveTableRow).where(*mine))}
        gone = old.keys() - {table.name for table in tables}
        for name in gone:
            self.session.delete(old[name])
        changed = len(gone)
        for table in tables:
            changed += table.name not in old or _table(old[table.name]) != table
            self.session.merge(_row(table))
        self.session.flush()
        return changed

    def keep_databases(self, catalog: CatalogName, databases: Collection[str]) -> None:
        """Remove the tables of other databases from the index."""
        self.session.execute(
            delete(HiveTableRow).where(HiveTableRow.catalog == catalog, HiveTableRow.database.not_in(databases))
        )

    def find(self, catalog: CatalogName, database: str, name: str) -> IndexedTable | None:
        """Find a table by name."""
        row = self.session.get(HiveTableRow, (catalog, database, name))
        return None if row is None else _table(row)

    def list(
        self,
        catalog: CatalogName,
        *,
        database: str | None = None,
        search: str | None = None,
        state: HiveTableState | None = None,
        out_of_sync: bool = False,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """List tables by database and name; `search` is a part of DATABASE.TABLE."""
        query = select(HiveTableRow).where(HiveTableRow.catalog == catalog)
        if state is not None:
            query = query.where(*_in_state(state))
        if out_of_sync:
            query = query.where(_LINKED.where(HiveLinkRow.out_of_sync).exists())
        if database is not None:
            query = query.where(HiveTableRow.database == database)
        if search:
            full = HiveTableRow.database + "." + HiveTableRow.name
            query = query.where(full.icontains(search, autoescape=True))
        if cursor is not None:
            after = cursors.decode_texts(cursor, 2)
            query = query.where(tuple_(HiveTableRow.database, HiveTableRow.name) > tuple_(*after))
        rows = self.session.scalars(query.order_by(HiveTableRow.database, HiveTableRow.name).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].database, rows[limit - 1].name) if len(rows) > limit else None
        return Page([_table(row) for row in rows[:limit]], more)

    def databases(self, catalog: CatalogName) -> Sequence[DatabaseCounts]:
        """Count the tables of each Hive database, in SQL since there may be 100,000 tables."""
        query = (
            select(
                HiveTableRow.database,
                func.count(),
                func.count(RelationRow.id),
                func.sum(case((and_(HiveTableRow.blocked, RelationRow.id.is_(None)), 1), else_=0)),
                func.sum(case((HiveLinkRow.out_of_sync, 1), else_=0)),
            )
            .select_from(HiveTableRow)
            .outerjoin(RelationRow, and_(RelationRow.catalog == HiveTableRow.catalog, RelationRow.hive_name == _FULL))
            .outerjoin(HiveLinkRow, HiveLinkRow.relation_id == RelationRow.id)
            .where(HiveTableRow.catalog == catalog)
            .group_by(HiveTableRow.database)
            .order_by(HiveTableRow.database)
        )
        return [
            DatabaseCounts(
                name=name, tables=tables, upgraded=upgraded, blocked=int(blocked), out_of_sync=int(out_of_sync)
            )
            for name, tables, upgraded, blocked, out_of_sync in self.session.execute(query)
        ]


_FULL = HiveTableRow.database + "." + HiveTableRow.name
_LINKED = (
    select(RelationRow.id)
    .join(HiveLinkRow, HiveLinkRow.relation_id == RelationRow.id)
    .where(RelationRow.catalog == HiveTableRow.catalog, RelationRow.hive_name == _FULL)
    .correlate(HiveTableRow)
)
_UNDER_WAY = (
    select(OperationRow.number)
    .where(
        OperationRow.catalog == HiveTableRow.catalog,
        OperationRow.target == _FULL,
        OperationRow.status.in_([OperationStatus.RUNNING, OperationStatus.PAUSED]),
    )
    .correlate(HiveTableRow)
)


def _in_state(state: HiveTableState) -> Sequence[ColumnElement[bool]]:
    """Build the conditions of a state: running operations take precedence, then upgraded tables."""
    is_linked = _LINKED.exists()
    upgrading = _UNDER_WAY.where(OperationRow.kind == OperationKind.UPGRADE).exists()
    downgrading = _UNDER_WAY.where(OperationRow.kind == OperationKind.DOWNGRADE).exists()
    if state is HiveTableState.UPGRADING:
        return (upgrading,)
    if state is HiveTableState.DOWNGRADING:
        return (downgrading,)
    if state is HiveTableState.UPGRADED:
        return (is_linked, ~upgrading, ~downgrading)
    blocked = HiveTableRow.blocked.is_(True) if state is HiveTableState.BLOCKED else HiveTableRow.blocked.is_(False)
    return (~is_linked, ~upgrading, ~downgrading, blocked)


def _row(table: IndexedTable) -> HiveTableRow:
    return HiveTableRow(
        catalog=table.catalog,
        database=table.database,
        name=table.name,
        format=table.format,
        location=table.location,
        columns=table.columns,
        partition_columns=list(table.partition_columns),
        ddl_time=table.ddl_time,
        blockers=[asdict(blocker) for blocker in table.blockers],
        blocked=bool(table.blockers),
        seen_at=table.seen_at,
    )


def _table(row: HiveTableRow) -> IndexedTable:
    return IndexedTable(
        catalog=CatalogName(row.catalog),
        database=row.database,
        name=row.name,
        format=row.format,
        location=row.location,
        columns=row.columns,
        partition_columns=tuple(row.partition_columns),
        ddl_time=row.ddl_time,
        blockers=tuple(IndexedBlocker(**blocker) for blocker in row.blockers),
        seen_at=row.seen_at,
    )


@dataclass(frozen=True)
class SqlBaselines:
    """See catalog.ports.hive.Baselines. Long baselines are compressed, since a table may have 100,000 partitions."""

    session: ReadSession

    def of(self, relation_id: RelationId) -> Mapping[str, Json]:
        """Get the baselines by partition name."""
        rows = self.session.execute(
            select(PartitionBaselineRow.partition, PartitionBaselineRow.baseline).where(
                PartitionBaselineRow.relation_id == relation_id
            )
        )
        return {partition: _decompress(baseline) for partition, baseline in rows}

    def elsewhere(self, relation_id: RelationId, directories: Collection[str]) -> Sequence[str]:
        """List the partition locations outside these directories; most partitions are inside and are not fetched."""
        query = select(PartitionBaselineRow.location).where(PartitionBaselineRow.relation_id == relation_id)
        inside = [starts_with(PartitionBaselineRow.location, f"{directory.rstrip('/')}/") for directory in directories]
        return self.session.scalars(query.where(not_(or_(false(), *inside))).distinct()).all()

    def put(self, relation_id: RelationId, baselines: Mapping[str, Json]) -> None:
        """Insert or replace baselines."""
        self.remove(relation_id, baselines.keys())
        self.session.add_all(
            PartitionBaselineRow(
                relation_id=relation_id,
                partition=partition,
                location=baseline["location"],
                baseline=_compress(baseline),
            )
            for partition, baseline in baselines.items()
        )
        self.session.flush()

    def remove(self, relation_id: RelationId, partitions: Collection[str]) -> None:
        """Remove the baselines of partitions."""
        names = list(partitions)
        for start in range(0, len(names), 500):
            batch = names[start : start + 500]
            mine = (PartitionBaselineRow.relation_id == relation_id, PartitionBaselineRow.partition.in_(batch))
            self.session.execute(delete(PartitionBaselineRow).where(*mine))

    def link(self, relation_id: RelationId) -> HiveLink | None:
        """Get the link as of the last sync or publish; None for a table that is not linked."""
        row = self.session.get(HiveLinkRow, relation_id, populate_existing=True)
        return None if row is None else HiveLink.from_json(row.link, row.synced_at)

    def put_link(self, relation_id: RelationId, link: HiveLink) -> None:
        """Insert or replace a link."""
        row, out_of_sync = self.session.get(HiveLinkRow, relation_id), link.drift is not None
        if row is None:
            values = {"link": link.to_json(), "out_of_sync": out_of_sync, "synced_at": link.synced_at}
            self.session.add(HiveLinkRow(relation_id=relation_id, **values))
        else:
            row.link, row.out_of_sync, row.synced_at = link.to_json(), out_of_sync, link.synced_at
        self.session.flush()

    def give_back(self, relation_id: RelationId, operation_id: OperationId | None) -> None:
        """Set or clear the operation that downgrades the table."""
        mine = update(HiveLinkRow).where(HiveLinkRow.relation_id == relation_id)
        self.session.execute(mine.values(given_back_by=operation_id))

    def given_back_by(self, relation_id: RelationId) -> OperationId | None:
        """Get the operation that downgrades the table, with one small query."""
        operation_id = self.session.scalar(
            select(HiveLinkRow.given_back_by).where(HiveLinkRow.relation_id == relation_id)
        )
        return None if operation_id is None else OperationId(operation_id)

    def summaries(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, LinkSummary]:
        """Get summaries of links, without their lists of files."""
        link = HiveLinkRow.link
        names = ("drift", "drift_kind", "drift_since", "likely_author", "published_at")
        columns = [link[name].as_string() for name in names]
        query = select(HiveLinkRow.relation_id, *columns, HiveLinkRow.synced_at)
        rows = self.session.execute(query.where(HiveLinkRow.relation_id.in_(relation_ids)))
        return {
            RelationId(relation_id): LinkSummary(**dict(zip(names, rest, strict=True)), synced_at=synced_at)
            for relation_id, *rest, synced_at in rows
        }

    def remember(self, relation_id: RelationId, events: Sequence[HiveEvent], now: datetime) -> None:
        """Add events, and remove the oldest of the table above EVENTS_KEPT."""
        if not events:
            return
        values = [{**asdict(event), "relation_id": relation_id, "at": now} for event in events]
        for row in values:
            del row["id"]  # the database numbers events
        self.session.execute(insert(HiveEventRow), values)
        mine = HiveEventRow.relation_id == relation_id
        newest = select(HiveEventRow.id).where(mine).order_by(HiveEventRow.id.desc())
        last = self.session.scalar(newest.offset(EVENTS_KEPT - 1).limit(1))
        if last is not None:
            self.session.execute(delete(HiveEventRow).where(mine, HiveEventRow.id < last))

    def events(
        self, relation_id: RelationId, *, partition: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[HiveEvent]:
        """List events, newest first."""
        query = select(HiveEventRow).where(HiveEventRow.relation_id == relation_id)
        if partition is not None:
            query = query.where(HiveEventRow.partition == partition)
        if cursor is not None:
            query = query.where(HiveEventRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(HiveEventRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_event(row) for row in rows[:limit]], more)

    def delete(self, relation_id: RelationId) -> None:
        """Remove the link, baselines and events of a table that is no longer linked."""
        self.session.execute(delete(PartitionBaselineRow).where(PartitionBaselineRow.relation_id == relation_id))
        self.session.execute(delete(HiveLinkRow).where(HiveLinkRow.relation_id == relation_id))
        self.session.execute(delete(HiveEventRow).where(HiveEventRow.relation_id == relation_id))

    def stage(self, job_id: JobId, plan: SyncPlan | PublishPlan) -> None:
        """Store the plan that a job's commit will apply."""
        self.session.merge(StagedBaselinesRow(job_id=job_id, staged=_compress(plan.to_json())))
        self.session.flush()

    def staged(self, job_id: JobId) -> SyncPlan | PublishPlan | None:
        """Get the plan that a job's commit will apply."""
        row = self.session.get(StagedBaselinesRow, job_id)
        return None if row is None else plan_from_json(_decompress(row.staged))


def _event(row: HiveEventRow) -> HiveEvent:
    values = {name: getattr(row, name) for name in _EVENT}
    return HiveEvent(**values | {"kind": HiveEventKind(row.kind)})


_SHORT = 1024
"""Values up to this many bytes stay uncompressed: most partitions have few files, and compression would not pay."""


def _compress(value: Json) -> bytes:
    plain = orjson.dumps(value)
    return plain if len(plain) <= _SHORT else zlib.compress(plain)


def _decompress(packed: bytes) -> Json:
    value: Json = orjson.loads(packed if packed.startswith(b"{") else zlib.decompress(packed))
    return value
