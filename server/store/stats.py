"""Counters of tables in the database, and from when on the planner has to look at each."""

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
from server.store.catalogs import begins
from server.store.prepared_statements import PreparedStatement
from server.store.rows import KeyedTableRow, RelationRow, TableStatsRow, TableStatusRow
from server.store.session import ReadSession

_TABLE = cast("Table", TableStatsRow.__table__)
_GET = PreparedStatement(select(_TABLE).where(_TABLE.c.relation_id == bindparam("relation_id")))
_COUNTERS = tuple(TableStats.__slots__)
_LOOKED = (
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
        """Zeros for a table that nobody has committed to."""
        row = _GET.first(self.session, {"relation_id": relation_id})
        return TableStats(relation_id=relation_id) if row is None else _stats(row)

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStats]:
        """Those that exist, in one query."""
        rows = self.session.scalars(select(TableStatsRow).where(TableStatsRow.relation_id.in_(relation_ids)))
        return {RelationId(row.relation_id): _stats(row) for row in rows}

    def put(self, stats: TableStats, *, plan_after: datetime) -> None:
        """Insert or replace. A look that is due earlier stays due: who commits all the time does not put it off."""
        values = {name: getattr(stats, name) for name in _COUNTERS}
        _putting(self.session.get_bind().dialect.name).all(
            self.session, values | {"plan_after": plan_after, "plan_requests": 1}
        )

    def look_again(self, relation_ids: Collection[RelationId], at: datetime) -> None:
        """Rows are locked in one order for all, or two who want the same two would wait for each other."""
        own = TableStatsRow.relation_id.in_(relation_ids)
        base = select(KeyedTableRow.base_id).where(KeyedTableRow.relation_id.in_(relation_ids))
        self._ask(or_(own, TableStatsRow.relation_id.in_(base)), at)

    def look_again_below(self, catalog: CatalogName, namespace: Namespace, at: datetime) -> None:
        """Stores lie in a namespace of their keyed table's name, below that of the table."""
        scope = [RelationRow.catalog == catalog]
        if namespace:
            path = encode_namespace(namespace)
            scope.append(or_(RelationRow.namespace == path, begins(RelationRow.namespace, path + SEPARATOR)))
        self._ask(TableStatsRow.relation_id.in_(select(RelationRow.id).where(*scope)), at)

    def plan_unassessed(self, at: datetime) -> None:
        """Stores have no standing of their own: their table's counts."""
        seen = exists().where(
            RelationRow.id == TableStatsRow.relation_id,
            or_(TableStatusRow.relation_id == RelationRow.id, TableStatusRow.relation_id == RelationRow.owner_id),
        )
        self._ask((TableStatsRow.plan_after.is_(None)) & ~seen, at)

    def _ask(self, which: ColumnElement[bool], at: datetime) -> None:
        ids = select(TableStatsRow.relation_id).where(which).order_by(TableStatsRow.relation_id).with_for_update()
        asked = update(TableStatsRow).where(TableStatsRow.relation_id.in_(ids.scalar_subquery()))
        values = {"plan_after": _earlier(_TABLE.c.plan_after, at), "plan_requests": TableStatsRow.plan_requests + 1}
        self.session.execute(asked.values(**values).execution_options(synchronize_session=False))

    def due(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """Longest due first, by the index alone."""
        query = select(TableStatsRow.relation_id).where(TableStatsRow.plan_after <= until)
        return [RelationId(one) for one in self.session.scalars(query.order_by(TableStatsRow.plan_after).limit(limit))]

    def looks(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, PlanRequest]:
        """How often each was asked for so far."""
        query = select(TableStatsRow.relation_id, TableStatsRow.plan_requests)
        rows = self.session.execute(query.where(TableStatsRow.relation_id.in_(relation_ids)))
        return {RelationId(one): PlanRequest(relation_id=RelationId(one), plan_requests=count) for one, count in rows}

    def looked(self, done: Collection[PlanResult], now: datetime) -> None:
        """What was asked for since it was read stays due, behind all that has waited longer."""
        given = [
            {"of": one.look.relation_id, "seen": one.look.plan_requests, "next_at": one.next_at, "now": now}
            for one in sorted(done, key=lambda one: one.look.relation_id)
        ]
        if given:
            self.session.connection().execute(_LOOKED, given)


def _earlier(column: ColumnElement[Any], at: Any) -> ColumnElement[Any]:
    return case((column < at, column), else_=at)


@cache
def _putting(dialect: str) -> PreparedStatement:
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
