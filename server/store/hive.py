"""The index of Hive's tables and the ground of linked ones in the database."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import delete, func, select, tuple_

from catalog.hive.indexed import IndexedBlocker, IndexedTable
from catalog.iceberg.json import Json
from catalog.job import JobId
from catalog.names import CatalogName, RelationId
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.rows import GroundRow, HiveLinkRow, HiveTableRow, StagedGroundRow
from server.store.session import ReadSession


@dataclass(frozen=True)
class SqlHiveTables:
    """See catalog.ports.hive.HiveTables."""

    session: ReadSession

    def replace(self, catalog: CatalogName, database: str, tables: Sequence[IndexedTable]) -> int:
        """Make the index of one database these tables."""
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
        """Forget the tables of databases that are gone."""
        self.session.execute(
            delete(HiveTableRow).where(HiveTableRow.catalog == catalog, HiveTableRow.database.not_in(databases))
        )

    def find(self, catalog: CatalogName, database: str, name: str) -> IndexedTable | None:
        """By its name."""
        row = self.session.get(HiveTableRow, (catalog, database, name))
        return None if row is None else _table(row)

    def list(
        self,
        catalog: CatalogName,
        *,
        database: str | None = None,
        search: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """By database and name; `search` is a part of both with their dot."""
        query = select(HiveTableRow).where(HiveTableRow.catalog == catalog)
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

    def databases(self, catalog: CatalogName) -> Sequence[tuple[str, int]]:
        """Databases and how many tables each has."""
        query = select(HiveTableRow.database, func.count()).where(HiveTableRow.catalog == catalog)
        rows = self.session.execute(query.group_by(HiveTableRow.database).order_by(HiveTableRow.database))
        return [(database, count) for database, count in rows]


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
class SqlGrounds:
    """See catalog.ports.hive.Grounds. Listings are packed: there may be 100,000 partitions of thousands of files."""

    session: ReadSession

    def of(self, relation_id: RelationId) -> Mapping[str, Json]:
        """By partition name."""
        rows = self.session.execute(
            select(GroundRow.partition, GroundRow.ground).where(GroundRow.relation_id == relation_id)
        )
        return {partition: _unpacked(ground) for partition, ground in rows}

    def put(self, relation_id: RelationId, grounds: Mapping[str, Json]) -> None:
        """Insert or replace."""
        self.remove(relation_id, grounds.keys())
        self.session.add_all(
            GroundRow(relation_id=relation_id, partition=partition, location=ground["location"], ground=_packed(ground))
            for partition, ground in grounds.items()
        )
        self.session.flush()

    def remove(self, relation_id: RelationId, partitions: Collection[str]) -> None:
        """Forget partitions."""
        names = list(partitions)
        for start in range(0, len(names), 500):
            some = names[start : start + 500]
            mine = (GroundRow.relation_id == relation_id, GroundRow.partition.in_(some))
            self.session.execute(delete(GroundRow).where(*mine))

    def link(self, relation_id: RelationId) -> tuple[dict[str, Any], datetime] | None:
        """What the last sync saw of the table itself, and when."""
        row = self.session.get(HiveLinkRow, relation_id, populate_existing=True)
        return None if row is None else (dict(row.link), row.synced_at)

    def put_link(self, relation_id: RelationId, link: Mapping[str, Any], synced_at: datetime) -> None:
        """Insert or replace."""
        self.session.merge(HiveLinkRow(relation_id=relation_id, link=dict(link), synced_at=synced_at))
        self.session.flush()

    def forget(self, relation_id: RelationId) -> None:
        """The table is no longer linked."""
        self.session.execute(delete(GroundRow).where(GroundRow.relation_id == relation_id))
        self.session.execute(delete(HiveLinkRow).where(HiveLinkRow.relation_id == relation_id))

    def stage(self, job_id: JobId, staged: Json) -> None:
        """Keep what a job's commit will make true."""
        self.session.merge(StagedGroundRow(job_id=job_id, staged=_packed(staged)))
        self.session.flush()

    def staged(self, job_id: JobId) -> Json | None:
        """What a job's commit will make true."""
        row = self.session.get(StagedGroundRow, job_id)
        return None if row is None else _unpacked(row.staged)


def _packed(value: Json) -> bytes:
    return zlib.compress(orjson.dumps(value))


def _unpacked(packed: bytes) -> Json:
    value: Json = orjson.loads(zlib.decompress(packed))
    return value
