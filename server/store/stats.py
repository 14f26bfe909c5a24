"""Counters of tables in the database, and the time of each table's next planning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, bindparam, case, exists, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from catalog.names import SEPARATOR, CatalogName, Namespace, RelationId, encode_namespace
from catalog.tables.relation import TableStats
from catalog.tables.table_status import PlanRequest, PlanResult
from server.store.catalogs import starts_with
from server.store.prepared_statements import PreparedStatement
from server.store.rows import KeyedTableRow, RelationRow, TableStatsRow, TableStatusRow
from server.store.session import ReadSession

_TABLE = cast("Table", TableStatsRow.__table__)
_GET = PreparedStatement(select(_TABLE).where(_TABLE.c.relation_id == bindparam("relation_id")))
_COUNTERS = tuple(TableStats.__slots__)
_RECORD_PLANNED = (
    update(_TABLE)
    .where(_TABLE.c.relation_id == bindparam("of"))
    .values(
        plan_after=case(
            (
                _TABLE.c.plan_requests == bindparam("seen", type_=_TABLE.c.plan_requests.type),
                bindparam("next_at", type_=_TABLE.c.plan_after.type),
            ),
            else_=bindparam("now", type_=_TABLE.c.plan_after.type),
        )
    )
)


@dataclass(frozen=True)
class SqlStats:
    """See catalog.ports.relations.Stats."""

    session: ReadSession

    def get(self, relation_id: RelationId) -> TableStats:
        """Get the counters of a table; zeros before its first commit."""
        row = _GET.first(self.session, {"relation_id": relation_id})
        return TableStats(relation_id=relation_id) if row is None else _stats(row)

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStats]:
        """Get existing counters, in one query."""
        if len(relation_ids) == 1:  # as most callers ask
            row = _GET.first(self.session, {"relation_id": next(iter(relation_ids))})
            return {} if row is None else {RelationId(row.relation_id): _stats(row)}
        rows = self.session.scalars(select(TableStatsRow).where(TableStatsRow.relation_id.in_(relation_ids)))
        return {RelationId(row.relation_id): _stats(row) for row in rows}

    def put(self, stats: TableStats, *, plan_after: datetime) -> None:
        """Insert or replace counters. An earlier planning time stays, so constant commits do not postpone planning."""
        values = {name: getattr(stats, name) for name in _COUNTERS}
        _build_upsert(self.session.get_bind().dialect.name).all(
            self.session, values | {"plan_after": plan_after, "plan_requests": 1}
        )

    def request_plans(self, relation_ids: Collection[RelationId], at: datetime) -> None:
        """Request planning of tables; all callers lock rows in the same order, which avoids deadlocks."""
        own = TableStatsRow.relation_id.in_(relation_ids)
        base = select(KeyedTableRow.base_id).where(KeyedTableRow.relation_id.in_(relation_ids))
        self._request(or_(own, TableStatsRow.relation_id.in_(base)), at)

    def request_plans_below(self, catalog: CatalogName, namespace: Namespace, at: datetime) -> None:
        """Request planning of all tables in a namespace; a keyed table's stores are in a namespace below it."""
        scope = [RelationRow.catalog == catalog]
        if namespace:
            path = encode_namespace(namespace)
            scope.append(or_(RelationRow.namespace == path, starts_with(RelationRow.namespace, path + SEPARATOR)))
        self._request(TableStatsRow.relation_id.in_(select(RelationRow.id).where(*scope)), at)

    def plan_unassessed(self, at: datetime) -> None:
        """Request planning of tables without an assessment; a store counts as assessed with its table."""
        assessed = exists().where(
            RelationRow.id == TableStatsRow.relation_id,
            or_(TableStatusRow.relation_id == RelationRow.id, TableStatusRow.relation_id == RelationRow.owner_id),
        )
        self._request((TableStatsRow.plan_after.is_(None)) & ~assessed, at)

    def _request(self, condition: ColumnElement[bool], at: datetime) -> None:
        ids = select(TableStatsRow.relation_id).where(condition).order_by(TableStatsRow.relation_id).with_for_update()
        statement = update(TableStatsRow).where(TableStatsRow.relation_id.in_(ids.scalar_subquery()))
        values = {"plan_after": _earlier(_TABLE.c.plan_after, at), "plan_requests": TableStatsRow.plan_requests + 1}
        self.session.execute(statement.values(**values).execution_options(synchronize_session=False))

    def due(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """List due tables, the longest due first, only from the index."""
        query = select(TableStatsRow.relation_id).where(TableStatsRow.plan_after <= until)
        return [RelationId(key) for key in self.session.scalars(query.order_by(TableStatsRow.plan_after).limit(limit))]

    def load_plan_requests(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, PlanRequest]:
        """Get the number of planning requests of each table so far."""
        query = select(TableStatsRow.relation_id, TableStatsRow.plan_requests)
        rows = self.session.execute(query.where(TableStatsRow.relation_id.in_(relation_ids)))
        return {RelationId(key): PlanRequest(relation_id=RelationId(key), plan_requests=count) for key, count in rows}

    def record_plans(self, done: Collection[PlanResult], now: datetime) -> None:
        """Record planned tables. A table with a newer request stays due, behind all that have waited longer."""
        values = [
            {
                "of": result.request.relation_id,
                "seen": result.request.plan_requests,
                "next_at": result.next_at,
                "now": now,
            }
            for result in sorted(done, key=lambda result: result.request.relation_id)
        ]
        if values:
            self.session.connection().execute(_RECORD_PLANNED, values)


def _earlier(column: ColumnElement[Any], at: Any) -> ColumnElement[Any]:
    return case((column < at, column), else_=at)


@cache
def _build_upsert(dialect: str) -> PreparedStatement:
    names = (*_COUNTERS, "plan_after", "plan_requests")
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement: Any = insert(_TABLE).values({name: bindparam(name) for name in names})
    replaced = {name: statement.excluded[name] for name in _COUNTERS if name != "relation_id"}
    replaced |= {
        "plan_after": _earlier(_TABLE.c.plan_after, statement.excluded["plan_after"]),
        "plan_requests": _TABLE.c.plan_requests + statement.excluded["plan_requests"],
    }
    return PreparedStatement(statement.on_conflict_do_update(index_elements=["relation_id"], set_=replaced))


def _stats(row: Any) -> TableStats:
    return TableStats(**{name: getattr(row, name) for name in _COUNTERS})
