"""Queries, the parts of their results, and saved queries in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, or_, select, update

from catalog.access.privileges import PrincipalId, RoleName
from catalog.jobs.job import OptimizerId
from catalog.names import CatalogName, TableName
from catalog.ports.page import Page
from catalog.queries.query import (
    CallerLimits,
    QueriedTable,
    Query,
    QueryId,
    QueryLease,
    QueryOutcome,
    ResultColumn,
    SavedQuery,
    SavedQueryId,
    SparkRequest,
)
from firn.protocol.queries import QueryEngineName, QueryState
from server.store import cursor as cursors
from server.store.query_rows import QueryPartRow, QueryRow, SavedQueryRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 250_000_000_000_000_000
"""Microseconds in which every time fits."""
_IS_SPARK = QueryRow.engine == QueryEngineName.SPARK
_ACTIVE = [state for state in QueryState if state.is_active]
_FIELDS = tuple(field.name for field in fields(Query))
_SAVED_FIELDS = tuple(field.name for field in fields(SavedQuery))


@dataclass(frozen=True)
class SqlQueries:
    """See catalog.ports.queries.Queries."""

    session: ReadSession

    def add(self, query: Query) -> None:
        """Store a new query."""
        values: dict[str, Any] = {name: getattr(query, name) for name in _FIELDS}
        values["tables"] = [_table_json(table) for table in query.tables]
        values["columns"], values["notes"] = [], list(query.notes)
        values["spark_request"] = None if query.spark_request is None else _write_request(query.spark_request)
        self.session.add(QueryRow(**values))
        self.session.flush()

    def find(self, query_id: QueryId) -> Query | None:
        """Find a query."""
        row = self.session.get(QueryRow, query_id)
        return None if row is None else _query(row)

    def list(self, owner: PrincipalId | None, *, limit: int, cursor: str | None = None) -> Page[Query]:
        """List the owner's queries, newest first."""
        query = select(QueryRow).where(_is_owner(owner))
        if cursor is not None:
            query = query.where(QueryRow.created_at < _EPOCH + timedelta(microseconds=_decode_time(cursor)))
        rows = self.session.scalars(query.order_by(QueryRow.created_at.desc()).limit(limit + 1)).all()
        more = (
            cursors.encode((rows[limit - 1].created_at - _EPOCH) // timedelta(microseconds=1))
            if len(rows) > limit
            else None
        )
        return Page([_query(row) for row in rows[:limit]], more)

    def count_active(self, owner: PrincipalId | None) -> int:
        """Count the owner's queries that wait or run."""
        query = select(func.count()).select_from(QueryRow).where(_is_owner(owner), QueryRow.state.in_(_ACTIVE))
        return self.session.scalar(query) or 0

    def start(self, query_id: QueryId, now: datetime, notes: Sequence[str]) -> bool:
        """Mark a queued query as running."""
        values = {"state": QueryState.RUNNING, "started_at": now, "seen_at": now, "notes": list(notes)}
        return self._change(query_id, [QueryState.QUEUED], values)

    def touch(self, query_ids: Collection[QueryId], now: datetime) -> Collection[QueryId]:
        """Note that a server is at these queries; returns those that have ended."""
        is_active = QueryRow.state.in_(_ACTIVE)
        touched = update(QueryRow).where(QueryRow.id.in_(query_ids), is_active).values(seen_at=now)
        alive = {row.id for row in self.session.execute(touched.returning(QueryRow.id))}
        return {query_id for query_id in query_ids if query_id not in alive}

    def note_progress(self, query_id: QueryId, progress: float) -> None:
        """Note how far a running query is."""
        self._change(query_id, [QueryState.RUNNING], {"progress": progress})

    def set_columns(self, query_id: QueryId, columns: Sequence[ResultColumn]) -> None:
        """Note the columns of the result."""
        named = [{"name": column.name, "type": column.type} for column in columns]
        self._change(query_id, [QueryState.RUNNING], {"columns": named})

    def put_part(self, query_id: QueryId, number: int, content: bytes) -> None:
        """Store a part of the result."""
        self.session.add(QueryPartRow(query_id=query_id, number=number, content=content))
        self.session.flush()

    def find_part(self, query_id: QueryId, number: int) -> bytes | None:
        """Find a part of the result."""
        query = select(QueryPartRow.content).where(QueryPartRow.query_id == query_id, QueryPartRow.number == number)
        return self.session.scalar(query)

    def drop_parts(self, query_id: QueryId) -> None:
        """Remove all parts of the result."""
        self.session.execute(delete(QueryPartRow).where(QueryPartRow.query_id == query_id))

    def end(self, query_id: QueryId, outcome: QueryOutcome, now: datetime, result_until: datetime | None) -> bool:
        """End an active query."""
        has_ended = self._change(query_id, _ACTIVE, _write_outcome(outcome, now, result_until))
        if has_ended and result_until is None:
            self.drop_parts(query_id)
        return has_ended

    def fail_silent(self, before: datetime, now: datetime, message: str) -> int:
        """Fail active queries of the instant engine without a server."""
        is_instant = QueryRow.engine == QueryEngineName.INSTANT
        silent = select(QueryRow.id).where(is_instant, QueryRow.state.in_(_ACTIVE), QueryRow.seen_at < before)
        failure = QueryOutcome(state=QueryState.FAILED, message=message, hint="Run the statement again.")
        return sum(self.end(QueryId(query_id), failure, now, None) for query_id in self.session.scalars(silent).all())

    def count_spark(self) -> int:
        """Count the active queries of the engine Spark."""
        query = select(func.count()).select_from(QueryRow).where(_IS_SPARK, QueryRow.state.in_(_ACTIVE))
        return self.session.scalar(query) or 0

    def count_by_optimizer(self) -> Mapping[str, int]:
        """Count the running queries of each optimizer."""
        running = (_IS_SPARK, QueryRow.state == QueryState.RUNNING, QueryRow.optimizer.is_not(None))
        query = select(QueryRow.optimizer, func.count()).where(*running).group_by(QueryRow.optimizer)
        return {optimizer: count for optimizer, count in self.session.execute(query) if optimizer is not None}

    def find_queued(self) -> Query | None:
        """Find the query that has waited longest for an optimizer."""
        queued = select(QueryRow).where(_IS_SPARK, QueryRow.state == QueryState.QUEUED)
        row = self.session.scalars(queued.order_by(QueryRow.created_at).limit(1)).first()
        return None if row is None else _query(row)

    def lease(self, query_id: QueryId, token: str, optimizer: OptimizerId, now: datetime) -> bool:
        """Give a queued query to an optimizer."""
        values = {"state": QueryState.RUNNING, "started_at": now, "seen_at": now}
        return self._change(query_id, [QueryState.QUEUED], values | {"lease": token, "optimizer": optimizer})

    def keep(self, lease: QueryLease, now: datetime, progress: float | None) -> bool:
        """Note that an optimizer is at its query."""
        return self._change_leased(lease, {"seen_at": now, "progress": progress})

    def hand_back(self, lease: QueryLease, now: datetime) -> bool:
        """Queue a query again, without parts of a result."""
        values: dict[str, Any] = {"state": QueryState.QUEUED, "started_at": None, "seen_at": now, "progress": None}
        is_queued = self._change_leased(lease, values | {"columns": [], "lease": None, "optimizer": None})
        if is_queued:
            self.drop_parts(lease.query_id)
        return is_queued

    def set_leased_columns(self, lease: QueryLease, columns: Sequence[ResultColumn]) -> bool:
        """Note the columns of the result of a leased query."""
        return self._change_leased(lease, {"columns": [{"name": each.name, "type": each.type} for each in columns]})

    def replace_part(self, query_id: QueryId, number: int, content: bytes) -> None:
        """Store a part of the result instead of one of the same number."""
        is_part = (QueryPartRow.query_id == query_id, QueryPartRow.number == number)
        self.session.execute(delete(QueryPartRow).where(*is_part))
        self.put_part(query_id, number, content)

    def end_leased(
        self, lease: QueryLease, outcome: QueryOutcome, now: datetime, result_until: datetime | None
    ) -> bool:
        """End a query for the optimizer that has its lease."""
        has_ended = self._change_leased(lease, _write_outcome(outcome, now, result_until))
        if has_ended and result_until is None:
            self.drop_parts(lease.query_id)
        return has_ended

    def fail_spark(self, state: QueryState, before: datetime, now: datetime, why: tuple[str, str]) -> int:
        """Fail queries of the engine Spark that have been in a state without a sign of life."""
        silent = select(QueryRow.id).where(_IS_SPARK, QueryRow.state == state, QueryRow.seen_at < before)
        values = _write_outcome(QueryOutcome(state=QueryState.FAILED, message=why[0], hint=why[1]), now, None)
        failed = 0
        for query_id in self.session.scalars(silent).all():
            is_still = (QueryRow.id == query_id, QueryRow.state == state, QueryRow.seen_at < before)
            change = update(QueryRow).where(*is_still).values(**values).returning(QueryRow.id)
            if self.session.execute(change).scalar_one_or_none() is not None:
                self.drop_parts(QueryId(query_id))
                failed += 1
        return failed

    def remove_results(self, now: datetime) -> int:
        """Remove results whose time is over."""
        over = self.session.scalars(select(QueryRow.id).where(QueryRow.result_until < now)).all()
        for query_id in over:
            self.drop_parts(QueryId(query_id))
            self.session.execute(update(QueryRow).where(QueryRow.id == query_id).values(result_until=None))
        return len(over)

    def remove_before(self, moment: datetime, *, limit: int) -> int:
        """Remove old queries with what is left of them."""
        query = select(QueryRow.id).where(QueryRow.created_at < moment).limit(limit)
        old = self.session.scalars(query).all()
        self.session.execute(delete(QueryPartRow).where(QueryPartRow.query_id.in_(old)))
        self.session.execute(delete(QueryRow).where(QueryRow.id.in_(old)))
        return len(old)

    def _change(self, query_id: QueryId, states: Collection[QueryState], values: dict[str, Any]) -> bool:
        change = update(QueryRow).where(QueryRow.id == query_id, QueryRow.state.in_(states)).values(**values)
        return self.session.execute(change.returning(QueryRow.id)).scalar_one_or_none() is not None

    def _change_leased(self, lease: QueryLease, values: dict[str, Any]) -> bool:
        is_leased = (QueryRow.state == QueryState.RUNNING, QueryRow.lease == lease.token)
        change = update(QueryRow).where(QueryRow.id == lease.query_id, *is_leased).values(**values)
        return self.session.execute(change.returning(QueryRow.id)).scalar_one_or_none() is not None


@dataclass(frozen=True)
class SqlSavedQueries:
    """See catalog.ports.queries.SavedQueries."""

    session: ReadSession

    def put(self, saved: SavedQuery) -> None:
        """Add or replace a saved query."""
        upsert(self.session, SavedQueryRow, {name: getattr(saved, name) for name in _SAVED_FIELDS})

    def find(self, saved_id: SavedQueryId) -> SavedQuery | None:
        """Find a saved query."""
        row = self.session.get(SavedQueryRow, saved_id)
        return None if row is None else to_saved_query(row)

    def list(self, owner: PrincipalId | None) -> Sequence[SavedQuery]:
        """List the owner's and the shared ones by name."""
        query = select(SavedQueryRow).where(is_readable_by(owner))
        return [
            to_saved_query(row) for row in self.session.scalars(query.order_by(SavedQueryRow.name, SavedQueryRow.id))
        ]

    def count(self, owner: PrincipalId | None) -> int:
        """Count the owner's."""
        return self.session.scalar(select(func.count()).select_from(SavedQueryRow).where(_is_saved_by(owner))) or 0

    def remove(self, saved_id: SavedQueryId) -> None:
        """Remove a saved query."""
        self.session.execute(delete(SavedQueryRow).where(SavedQueryRow.id == saved_id))


def _decode_time(cursor: str) -> int:
    return min(cursors.decode_number(cursor), _LAST)


def _is_owner(owner: PrincipalId | None) -> Any:
    return QueryRow.owner.is_(None) if owner is None else QueryRow.owner == owner


def is_readable_by(owner: PrincipalId | None) -> Any:
    """Build the condition for the owner's saved queries and the shared ones."""
    return or_(_is_saved_by(owner), SavedQueryRow.shared)


def _is_saved_by(owner: PrincipalId | None) -> Any:
    return SavedQueryRow.owner.is_(None) if owner is None else SavedQueryRow.owner == owner


def _write_outcome(outcome: QueryOutcome, now: datetime, result_until: datetime | None) -> dict[str, Any]:
    values: dict[str, Any] = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    return values | {"ended_at": now, "result_until": result_until, "progress": None, "lease": None}


def _write_request(request: SparkRequest) -> dict[str, Any]:
    caller = request.caller
    return {
        "rows": request.rows,
        "snapshot": request.snapshot,
        "token_id": caller.token_id,
        "roles": None if caller.roles is None else list(caller.roles),
        "catalogs": None if caller.catalogs is None else list(caller.catalogs),
        "expires_at": None if caller.expires_at is None else caller.expires_at.isoformat(),
    }


def _read_request(values: dict[str, Any]) -> SparkRequest:
    roles, catalogs, expires_at = values["roles"], values["catalogs"], values["expires_at"]
    caller = CallerLimits(
        token_id=values["token_id"],
        roles=None if roles is None else tuple(map(RoleName, roles)),
        catalogs=None if catalogs is None else tuple(map(CatalogName, catalogs)),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
    )
    return SparkRequest(rows=values["rows"], snapshot=values["snapshot"], caller=caller)


def _table_json(table: QueriedTable) -> dict[str, Any]:
    return {"catalog": table.catalog, "namespace": list(table.name.namespace), "name": table.name.name}


def _query(row: QueryRow) -> Query:
    values: dict[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    values["tables"] = tuple(
        QueriedTable(CatalogName(table["catalog"]), TableName(tuple(table["namespace"]), table["name"]))
        for table in row.tables
    )
    values["columns"] = tuple(ResultColumn(column["name"], column["type"]) for column in row.columns)
    values |= {"state": QueryState(row.state), "notes": tuple(row.notes), "engine": QueryEngineName(row.engine)}
    values["spark_request"] = None if row.spark_request is None else _read_request(row.spark_request)
    values["optimizer"] = None if row.optimizer is None else OptimizerId(row.optimizer)
    return Query(**values)


def to_saved_query(row: SavedQueryRow) -> SavedQuery:
    """Convert a row."""
    values: dict[str, Any] = {name: getattr(row, name) for name in _SAVED_FIELDS}
    return SavedQuery(**(values | {"engine": QueryEngineName(row.engine)}))
