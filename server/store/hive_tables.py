"""The index of Hive tables in the database: listed, filtered, ordered and counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, and_, case, delete, func, or_, select, tuple_, update

from catalog.hive.table_index import (
    EVERY_TABLE,
    DatabaseCounts,
    HiveTableFilter,
    HiveTableOrder,
    HiveTableState,
    IndexedBlocker,
    IndexedTable,
    MigrationCount,
    MigrationState,
    TableFacts,
)
from catalog.names import CatalogName
from catalog.ports.page import Page
from firn.protocol.operations import OperationKind, OperationStatus
from server.store import cursor as cursors
from server.store.hive_rows import HiveLinkRow, HiveTableRow
from server.store.job_rows import OperationRow
from server.store.rows import RelationRow
from server.store.session import ReadSession

_NUMBERS = ("partitions", "files", "bytes", "rows", "last_write")
_UNKNOWN = -1


@dataclass(frozen=True)
class SqlHiveTables:
    """See catalog.ports.hive.HiveTables."""

    session: ReadSession

    def replace(
        self,
        catalog: CatalogName,
        database: str,
        tables: Sequence[IndexedTable],
        sizes: Mapping[str, TableFacts] | None = None,
    ) -> int:
        """Replace the index of one database; returns the number of changed tables. See the port for `sizes`."""
        mine = (HiveTableRow.catalog == catalog, HiveTableRow.database == database)
        old = {row.name: row for row in self.session.scalars(select(HiveTableRow).where(*mine))}
        gone = old.keys() - {table.name for table in tables}
        for name in gone:
            self.session.delete(old[name])
        before = {name: _table(row) for name, row in old.items()}
        merged = [
            listed.with_findings_of(before[listed.name]) if listed.name in before else listed for listed in tables
        ]
        known = sizes or {}
        merged = [
            replace(table, facts=known[table.full_name].or_else(table.facts)) if table.full_name in known else table
            for table in merged
        ]
        changed = [
            table
            for table in merged
            if table.name not in before or replace(before[table.name], seen_at=table.seen_at) != table
        ]
        with self.session.no_autoflush:
            for table in changed:
                self.session.merge(HiveTableRow(**to_row_values(table)))
        self.session.flush()
        if tables:  # most listings change nothing: one statement, where a merge takes milliseconds for each table
            self.session.execute(update(HiveTableRow).where(*mine).values(seen_at=tables[0].seen_at))
        return len(gone) + len(changed)

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
        only: HiveTableFilter = EVERY_TABLE,
        *,
        order: HiveTableOrder = HiveTableOrder.NAME,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """List tables in this order, then by database and name."""
        query = select(HiveTableRow).where(*_conditions(catalog, only))
        names = (HiveTableRow.database, HiveTableRow.name)
        if order is HiveTableOrder.NAME:
            if cursor is not None:
                query = query.where(tuple_(*names) > tuple_(*cursors.decode_texts(cursor, 2)))
            rows = self.session.scalars(query.order_by(*names).limit(limit + 1)).all()
            more = cursors.encode(rows[limit - 1].database, rows[limit - 1].name) if len(rows) > limit else None
            return Page([_table(row) for row in rows[:limit]], more)
        column = getattr(HiveTableRow, order)
        if cursor is not None:
            value, *after = cursors.decode_ordered(cursor, int if order.is_number else str)
            beyond = column < value if order.is_number else column > value
            query = query.where(or_(beyond, and_(column == value, tuple_(*names) > tuple_(*after))))
        by = column.desc() if order.is_number else column
        rows = self.session.scalars(query.order_by(by, *names).limit(limit + 1)).all()
        last = rows[limit - 1] if len(rows) > limit else None
        more = None if last is None else cursors.encode(getattr(last, order), last.database, last.name)
        return Page([_table(row) for row in rows[:limit]], more)

    def databases(self, catalog: CatalogName) -> Sequence[DatabaseCounts]:
        """Count the tables of each Hive database, in SQL since there may be 100,000 tables."""
        query = (
            _with_link(
                select(
                    HiveTableRow.database,
                    func.count(),
                    func.count(RelationRow.id),
                    func.sum(case((and_(HiveTableRow.blocked, RelationRow.id.is_(None)), 1), else_=0)),
                    func.sum(case((HiveLinkRow.out_of_sync, 1), else_=0)),
                )
            )
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

    def count(self, catalog: CatalogName, only: HiveTableFilter = EVERY_TABLE) -> Sequence[MigrationCount]:
        """Count tables by database, state and first blocker, in SQL since there may be 100,000 tables."""
        running = (
            select(OperationRow.target)
            .where(
                OperationRow.catalog == catalog,
                OperationRow.kind == OperationKind.UPGRADE,
                OperationRow.status.in_(_UNFINISHED),
            )
            .distinct()
            .subquery()
        )
        state = case(
            (RelationRow.id.is_not(None), MigrationState.UPGRADED),
            (running.c.target.is_not(None), MigrationState.UPGRADING),
            (HiveTableRow.failure.is_not(None), MigrationState.FAILED),
            (HiveTableRow.blocked, MigrationState.BLOCKED),
            else_=MigrationState.ELIGIBLE,
        )
        groups = (HiveTableRow.database, state, HiveTableRow.blocker)
        size, rows = (case((column >= 0, column), else_=0) for column in (HiveTableRow.bytes, HiveTableRow.rows))
        counts = (
            func.count(),
            *(func.sum(number) for number in (size, rows)),
            func.sum(case((HiveTableRow.bytes < 0, 1), else_=0)),
            func.count(HiveTableRow.checked_at),
            func.sum(case((HiveLinkRow.published, 1), else_=0)),
        )
        query = _with_link(select(*groups, *counts)).outerjoin(running, running.c.target == _FULL)
        counted = self.session.execute(query.where(*_conditions(catalog, only)).group_by(*groups).order_by(*groups))
        names = ("tables", "bytes", "rows", "unknown", "checked", "published")
        return [
            MigrationCount(
                database=database,
                state=MigrationState(where),
                blocker=blocker,
                **{name: int(number) for name, number in zip(names, numbers, strict=True)},
            )
            for database, where, blocker, *numbers in counted
        ]

    def blocked_by(self, catalog: CatalogName, code: str, database: str) -> IndexedTable | None:
        """Find the first table of a database with this first blocker."""
        mine = (HiveTableRow.catalog == catalog, HiveTableRow.blocker == code, HiveTableRow.database == database)
        row = self.session.scalar(select(HiveTableRow).where(*mine).order_by(HiveTableRow.name).limit(1))
        return None if row is None else _table(row)

    def note_check(
        self, catalog: CatalogName, full_name: str, facts: TableFacts, blockers: Sequence[IndexedBlocker], now: datetime
    ) -> None:
        """Store the findings of a check; a fact that it does not know stays as it was."""
        database, _, name = full_name.partition(".")
        table = self.find(catalog, database, name)
        if table is not None:
            facts = facts.or_else(table.facts)
            table = replace(table, facts=facts, checked=tuple(blockers), checked_at=now)
            self.session.merge(HiveTableRow(**to_row_values(table)))
            self.session.flush()

    def note_failure(self, catalog: CatalogName, full_name: str, failure: str | None) -> None:
        """Store why an upgrade failed, or that the last one did not."""
        database, _, name = full_name.partition(".")
        row = self.session.get(HiveTableRow, (catalog, database, name))
        if row is not None:
            row.failure = failure
            self.session.flush()


_FULL = HiveTableRow.database + "." + HiveTableRow.name
_UNFINISHED = (OperationStatus.RUNNING, OperationStatus.PAUSED)
_LINKED = (
    select(RelationRow.id)
    .join(HiveLinkRow, HiveLinkRow.relation_id == RelationRow.id)
    .where(RelationRow.catalog == HiveTableRow.catalog, RelationRow.hive_name == _FULL)
    .correlate(HiveTableRow)
)
_TARGETS = select(OperationRow.target).where(OperationRow.status.in_(_UNFINISHED))
_UNDER_WAY = (
    select(OperationRow.number)
    .where(
        OperationRow.catalog == HiveTableRow.catalog,
        OperationRow.target == _FULL,
        OperationRow.status.in_(_UNFINISHED),
    )
    .correlate(HiveTableRow)
)


def _with_link(query: Any) -> Select[Any]:  # the types of its columns do not matter
    return (
        cast("Select[Any]", query)
        .select_from(HiveTableRow)
        .outerjoin(RelationRow, and_(RelationRow.catalog == HiveTableRow.catalog, RelationRow.hive_name == _FULL))
        .outerjoin(HiveLinkRow, HiveLinkRow.relation_id == RelationRow.id)
    )


def _conditions(catalog: CatalogName, only: HiveTableFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [HiveTableRow.catalog == catalog]
    for name in ("database", "format", "blocker", "writer"):
        value = getattr(only, name)
        if value is not None:
            conditions.append(getattr(HiveTableRow, name) == value)
    if only.search:
        conditions.append(_FULL.contains(only.search.lower(), autoescape=True))  # metastores keep names in lower case
    if only.state is not None:
        conditions.extend(_in_state(catalog, only.state))
    if only.out_of_sync is not None:
        in_sync = ~_LINKED.where(HiveLinkRow.out_of_sync).exists()
        conditions.append(_FULL.in_(_list_out_of_sync(catalog)) if only.out_of_sync else in_sync)
    if only.failed is not None:
        has_failed = and_(HiveTableRow.failure.is_not(None), ~_LINKED.exists())
        conditions.append(has_failed if only.failed else ~has_failed)
    if only.checked is not None:
        conditions.append(HiveTableRow.checked_at.is_not(None) if only.checked else HiveTableRow.checked_at.is_(None))
    if only.partitioned is not None:
        conditions.append(HiveTableRow.partitions != 0 if only.partitioned else HiveTableRow.partitions == 0)
    return [*conditions, *_bounds(only)]


def _bounds(only: HiveTableFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    written = {
        "since": None if only.written_since is None else int(only.written_since.timestamp()),
        "before": None if only.written_before is None else int(only.written_before.timestamp()) - 1,
    }
    bounds = [
        (HiveTableRow.bytes, only.min_bytes, only.max_bytes),
        (HiveTableRow.rows, only.min_rows, only.max_rows),
        (HiveTableRow.partitions, only.min_partitions, only.max_partitions),
        (HiveTableRow.last_write, written["since"], written["before"]),
    ]
    for column, lowest, highest in bounds:
        if lowest is not None:
            conditions.append(column >= lowest)
        if highest is not None:
            conditions.append(column.between(0, highest))
    return conditions


def _list_out_of_sync(catalog: CatalogName) -> Select[str | None]:
    """List the Hive tables that differ: from the few links that do, not from all tables of the catalog."""
    query = select(RelationRow.hive_name).join(HiveLinkRow, HiveLinkRow.relation_id == RelationRow.id)
    no_index = RelationRow.catalog + ""  # SQLite would rather begin with the catalog's index
    return query.where(HiveLinkRow.out_of_sync, no_index == catalog)


def _in_state(catalog: CatalogName, state: HiveTableState) -> Sequence[ColumnElement[bool]]:
    """Build the conditions of a state: running operations take precedence, then upgraded tables.

    Few tables have a running operation: their names are read once. Most tables have none, so a page of them needs few
    look-ups.
    """
    running = {HiveTableState.UPGRADING: OperationKind.UPGRADE, HiveTableState.DOWNGRADING: OperationKind.DOWNGRADE}
    if state in running:
        return (_FULL.in_(_TARGETS.where(OperationRow.catalog == catalog, OperationRow.kind == running[state])),)
    is_linked = _LINKED.exists()
    upgrading = _UNDER_WAY.where(OperationRow.kind == OperationKind.UPGRADE).exists()
    downgrading = _UNDER_WAY.where(OperationRow.kind == OperationKind.DOWNGRADE).exists()
    if state is HiveTableState.UPGRADED:
        return (is_linked, ~upgrading, ~downgrading)
    blocked = HiveTableRow.blocked.is_(True) if state is HiveTableState.BLOCKED else HiveTableRow.blocked.is_(False)
    return (~is_linked, ~upgrading, ~downgrading, blocked)


def to_row_values(table: IndexedTable) -> dict[str, Any]:
    """The columns of the row of a table."""
    blockers = table.all_blockers
    numbers = {name: getattr(table.facts, name) for name in _NUMBERS}
    return dict(
        catalog=table.catalog,
        database=table.database,
        name=table.name,
        format=table.format,
        location=table.location,
        columns=table.columns,
        partition_columns=list(table.partition_columns),
        ddl_time=table.ddl_time,
        blockers=[asdict(blocker) for blocker in table.blockers],
        blocked=bool(blockers),
        seen_at=table.seen_at,
        **{name: _UNKNOWN if number is None else number for name, number in numbers.items()},
        writer=table.facts.writer or "",
        blocker=blockers[0].code if blockers else "",
        checked=[asdict(blocker) for blocker in table.checked],
        checked_at=table.checked_at,
        failure=table.failure,
    )


def _table(row: HiveTableRow) -> IndexedTable:
    numbers = {name: None if getattr(row, name) < 0 else getattr(row, name) for name in _NUMBERS}
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
        facts=TableFacts(**numbers, writer=row.writer or None),
        checked=tuple(IndexedBlocker(**blocker) for blocker in row.checked),
        checked_at=row.checked_at,
        failure=row.failure,
    )
