"""The planner's assessments of tables in the database, with an index for each list order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import Table, bindparam, case, delete, func, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.names import SEPARATOR, CatalogName, Namespace, RelationId, encode_namespace
from catalog.ports.page import Page
from catalog.ports.work import Listing
from catalog.tables.relation import Relation
from catalog.tables.table_status import PERFECT, TableStatus
from firn.protocol.tables import Sort
from server.store import cursor as cursors
from server.store.relations import to_relation
from server.store.rows import RelationRow, TableStatusRow
from server.store.session import ReadSession

_FIELDS = tuple(TableStatus.__slots__)
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for no commit, because databases order NULL differently."""


@dataclass(frozen=True, slots=True)
class _Order:
    """A sort column of lists, and the encoding of its values in a cursor."""

    column: Any
    descending: bool
    to_text: Callable[[Any], str]
    from_text: Callable[[str], Any]


def _parse_count(text: str) -> int:
    count = int(text)
    if not 0 <= count < 2**63:
        raise ValueError(text)
    return count


def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(text)
    return time


_ORDERS: Mapping[Sort, _Order] = {
    Sort.HEALTH: _Order(TableStatusRow.health, descending=False, to_text=str, from_text=_parse_count),
    Sort.SIZE: _Order(TableStatusRow.bytes, descending=True, to_text=str, from_text=_parse_count),
    Sort.FILES: _Order(TableStatusRow.data_files, descending=True, to_text=str, from_text=_parse_count),
    Sort.PENDING: _Order(TableStatusRow.pending_rows, descending=True, to_text=str, from_text=_parse_count),
    Sort.LAST_COMMIT: _Order(
        TableStatusRow.last_commit_at, descending=True, to_text=datetime.isoformat, from_text=_parse_time
    ),
}


@dataclass(frozen=True)
class SqlTableStatuses:
    """See catalog.ports.work.TableStatuses."""

    session: ReadSession

    def put(self, table_statuses: Sequence[TableStatus]) -> None:
        """Insert or replace assessments."""
        rows = [_values(status) for status in sorted(table_statuses, key=lambda status: status.relation_id)]
        if rows:
            self.session.connection().execute(_build_upsert(self.session.get_bind().dialect.name), rows)

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStatus]:
        """Get existing assessments, in one query."""
        rows = self.session.scalars(select(TableStatusRow).where(TableStatusRow.relation_id.in_(relation_ids)))
        return {RelationId(row.relation_id): _table_status(row) for row in rows}

    def remove(self, relation_ids: Collection[RelationId]) -> None:
        """Remove assessments."""
        self.session.execute(delete(TableStatusRow).where(TableStatusRow.relation_id.in_(relation_ids)))

    def long_ago(self, before: datetime, now: datetime, *, limit: int) -> Sequence[RelationId]:
        """Find tables assessed before a time, or in the future after the clock was set back.

        Two queries, because one would scan all rows.
        """
        relation_ids: list[RelationId] = []
        for condition in (TableStatusRow.looked_at < before, TableStatusRow.looked_at > now):
            query = (
                select(TableStatusRow.relation_id)
                .where(condition)
                .order_by(TableStatusRow.looked_at)
                .limit(limit - len(relation_ids))
            )
            relation_ids += map(RelationId, self.session.scalars(query))
        return relation_ids

    def list(self, catalog: CatalogName, listing: Listing, *, limit: int, cursor: str | None = None) -> Page[Relation]:
        """List one page, by one index from the end of the previous page."""
        query: Any = select(RelationRow, TableStatusRow).join(
            TableStatusRow, TableStatusRow.relation_id == RelationRow.id
        )
        query = _filter(query.where(TableStatusRow.catalog == catalog, RelationRow.catalog == catalog), listing)
        query, cursor_of = (
            _order_by_name(query, cursor) if listing.sort is Sort.NAME else _order_by(query, listing.sort, cursor)
        )
        rows = self.session.execute(query.limit(limit + 1)).all()
        more = cursor_of(*rows[limit - 1]) if len(rows) > limit else None
        return Page([to_relation(relation) for relation, _ in rows[:limit]], more)

    def worst(self, *, limit: int) -> Sequence[tuple[Relation, TableStatus]]:
        """List the least healthy tables of all catalogs."""
        query = select(RelationRow, TableStatusRow).join(TableStatusRow, TableStatusRow.relation_id == RelationRow.id)
        query = query.order_by(TableStatusRow.health, TableStatusRow.relation_id).limit(limit)
        return [(to_relation(relation), _table_status(row)) for relation, row in self.session.execute(query)]

    def worst_within(
        self, catalog: CatalogName, namespaces: Collection[Namespace] | None, *, limit: int
    ) -> Sequence[tuple[Relation, TableStatus]]:
        """List the least healthy tables of a catalog, by the index of its health, or of some of its namespaces."""
        query = select(RelationRow, TableStatusRow).join(TableStatusRow, TableStatusRow.relation_id == RelationRow.id)
        query = query.where(TableStatusRow.health < PERFECT)
        if namespaces is None:
            query = query.where(TableStatusRow.catalog == catalog)
        else:
            paths = [encode_namespace(namespace) for namespace in namespaces]
            query = query.where(RelationRow.catalog == catalog, RelationRow.namespace.in_(paths))
        query = query.order_by(TableStatusRow.health, TableStatusRow.relation_id).limit(limit)
        return [(to_relation(relation), _table_status(row)) for relation, row in self.session.execute(query)]

    def count_written(self, catalog: CatalogName, since: Sequence[datetime]) -> Sequence[int]:
        """Count the tables of a catalog with a commit since each of some times, in one scan of the index alone."""
        column = TableStatusRow.last_commit_at
        query = select(*(func.count(case((column >= at, 1))) for at in since))
        row = self.session.execute(query.where(TableStatusRow.catalog == catalog, column >= min(since))).one()
        return [int(tables) for tables in row]

    def by_health(self, grades: Mapping[str, int], catalog: CatalogName | None = None) -> Mapping[str, int]:
        """Count tables by grade; `grades` has the lowest health of each grade. Without a catalog, those of all."""
        highest_first = sorted(grades.items(), key=lambda grade: grade[1], reverse=True)
        grade = case(*[(TableStatusRow.health >= least, name) for name, least in highest_first]).label("grade")
        query = select(grade, func.count()).group_by("grade")
        query = query if catalog is None else query.where(TableStatusRow.catalog == catalog)
        counted = {str(name): int(tables) for name, tables in self.session.execute(query)}
        return {name: counted.get(name, 0) for name in grades}


_CursorOf = Callable[[RelationRow, TableStatusRow], str]


def _filter(query: Any, listing: Listing) -> Any:
    query = query.where(RelationRow.kind.in_(listing.kinds))
    if listing.namespace is not None:
        query = query.where(RelationRow.namespace == encode_namespace(listing.namespace))
    if listing.search:
        full = func.replace(RelationRow.namespace, SEPARATOR, ".") + "." + RelationRow.name
        query = query.where(full.icontains(listing.search, autoescape=True))
    if listing.health_below is not None:
        query = query.where(TableStatusRow.health < listing.health_below)
    return query


def _order_by_name(query: Any, cursor: str | None) -> tuple[Any, _CursorOf]:
    if cursor is not None:
        after = cursors.decode_texts(cursor, 2)
        query = query.where(tuple_(RelationRow.namespace, RelationRow.name) > tuple_(*after))
    query = query.order_by(RelationRow.namespace, RelationRow.name)
    return query, lambda relation, _: cursors.encode(relation.namespace, relation.name)


def _order_by(query: Any, sort: Sort, cursor: str | None) -> tuple[Any, _CursorOf]:
    order = _ORDERS[sort]
    position = tuple_(order.column, TableStatusRow.relation_id)
    if cursor is not None:
        value, last = _decode_cursor(order, cursor)
        after = tuple_(bindparam(None, value, type_=order.column.type), bindparam(None, last, type_=_ID.type))
        query = query.where(position < after if order.descending else position > after)
    directed = [column.desc() if order.descending else column for column in (order.column, TableStatusRow.relation_id)]
    return query.order_by(*directed), lambda _, row: cursors.encode(
        order.to_text(getattr(row, order.column.key)), row.relation_id.hex
    )


_ID = TableStatusRow.relation_id


def _decode_cursor(order: _Order, cursor: str) -> tuple[Any, UUID]:
    value, last = cursors.decode_texts(cursor, 2)
    try:
        return order.from_text(value), UUID(last)
    except ValueError as error:
        raise Invalid("invalid page cursor", hint="use the cursor of the previous page unchanged") from error


@cache
def _build_upsert(dialect: str) -> Any:
    table = TableStatusRow.__table__
    assert isinstance(table, Table)  # a mapped class could also stand for a join; this one does not
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement: Any = insert(table).values({name: bindparam(name) for name in _FIELDS})
    replaced = {name: statement.excluded[name] for name in _FIELDS if name != "relation_id"}
    return statement.on_conflict_do_update(index_elements=["relation_id"], set_=replaced)


def _values(table_status: TableStatus) -> dict[str, Any]:
    values = {name: getattr(table_status, name) for name in _FIELDS}
    return values | {"parts": dict(table_status.parts), "last_commit_at": table_status.last_commit_at or _NEVER}


def _table_status(row: TableStatusRow) -> TableStatus:
    values = {name: getattr(row, name) for name in _FIELDS}
    values["kind"] = None if row.kind is None else JobKind(row.kind)
    values["last_commit_at"] = None if row.last_commit_at == _NEVER else row.last_commit_at
    return TableStatus(**values)
