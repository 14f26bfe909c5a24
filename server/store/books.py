"""Operations, policies, answers and the leadership in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, delete, func, insert, or_, select, tuple_, update

from catalog.errors import Conflict, NotFound
from catalog.jobs.operation import (
    WAITING,
    BatchId,
    Operation,
    OperationId,
    OperationKind,
    OperationStatus,
    Tally,
    read_outcome,
)
from catalog.names import CatalogName, Namespace, decode_namespace, encode_namespace
from catalog.ports.idempotency import StoredResponse
from catalog.ports.page import Page
from catalog.ports.store import Scope
from server.store import cursor as cursors
from server.store.rows import AnswerRow, LeaderRow, PolicyRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert
from server.store.work_rows import OperationRow

_BACKGROUND = "background"
_UNFINISHED = (OperationStatus.RUNNING, OperationStatus.PAUSED)
_OPERATION = tuple(f.name for f in fields(Operation))


@dataclass(frozen=True)
class SqlOperations:
    """See catalog.ports.store.Operations."""

    session: ReadSession

    def add(self, operation: Operation) -> None:
        """Store a new one."""
        self.session.add(OperationRow(**_operation_values(operation)))
        self.session.flush()

    def get(self, operation_id: OperationId) -> Operation:
        """NotFound when there is none."""
        return self._one(select(OperationRow).where(OperationRow.id == operation_id), operation_id)

    def lock(self, operation_id: OperationId) -> Operation:
        """The same, as nobody else can change it before this transaction ends."""
        return self._one(select(OperationRow).where(OperationRow.id == operation_id).with_for_update(), operation_id)

    def _one(self, query: Select[OperationRow], operation_id: OperationId) -> Operation:
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NotFound(f"operation {operation_id} does not exist")
        return _operation(row)

    def put(self, operation: Operation) -> None:
        """Replace it."""
        values = _operation_values(operation)
        self.session.execute(update(OperationRow).where(OperationRow.id == operation.id).values(**values))

    def unfinished(self) -> Sequence[Operation]:
        """Those that still run, ran when their server died, or are paused; oldest first."""
        query = select(OperationRow).where(OperationRow.status.in_(_UNFINISHED)).order_by(OperationRow.number)
        return [_operation(row) for row in self.session.scalars(query)]

    def working_on(self, catalog: CatalogName, targets: Collection[str]) -> Mapping[str, Operation]:
        """Unfinished upgrades and downgrades of these tables."""
        names, found = list(targets), dict[str, Operation]()
        for start in range(0, len(names), 500):
            query = select(OperationRow).where(
                OperationRow.catalog == catalog,
                OperationRow.target.in_(names[start : start + 500]),
                OperationRow.status.in_(_UNFINISHED),
                OperationRow.kind.in_([OperationKind.UPGRADE, OperationKind.DOWNGRADE]),
            )
            found |= {row.target: _operation(row) for row in self.session.scalars(query)}
        return found

    def next(
        self, kinds: Collection[OperationKind], *, but_for: Collection[OperationId], limit: int
    ) -> Sequence[Operation]:
        """Those to carry out: what is to be canceled, then what was asked for alone, then batches; oldest first."""
        query = select(OperationRow).where(
            OperationRow.status == OperationStatus.RUNNING,
            OperationRow.kind.in_(kinds),
            OperationRow.id.not_in(but_for),
        )
        alone_first = case((OperationRow.batch.is_(None), 0), else_=1)
        order = (OperationRow.cancel_asked.desc(), alone_first, OperationRow.number)
        return [_operation(row) for row in self.session.scalars(query.order_by(*order).limit(limit))]

    def list(
        self,
        *,
        catalog: CatalogName | None = None,
        batch: BatchId | None = None,
        target: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """Newest first, those of a batch as they come."""
        query = select(OperationRow)
        if catalog is not None:
            query = query.where(OperationRow.catalog == catalog)
        if batch is not None:
            query = query.where(OperationRow.batch == batch)
        if target is not None:
            query = query.where(OperationRow.target == target)
        number = OperationRow.number
        if cursor is not None:
            after = cursors.decode_number(cursor)
            query = query.where(number < after if batch is None else number > after)
        order = number.desc() if batch is None else number
        rows = self.session.scalars(query.order_by(order).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_operation(row) for row in rows[:limit]], more)

    def add_all(self, operations: Collection[Operation]) -> None:
        """Store new ones; there may be thousands."""
        if operations:
            self.session.execute(insert(OperationRow), [_operation_values(one) for one in operations])

    def tally(self, batch: BatchId) -> Tally:
        """Counted by the database: a batch may have thousands."""
        where = (OperationRow.status, OperationRow.phase)
        same = (OperationRow.catalog, OperationRow.kind, OperationRow.created_at)
        query = select(*where, func.count(), *same).where(OperationRow.batch == batch).group_by(*where, *same)
        rows = self.session.execute(query).all()
        if not rows:
            raise NotFound(f"there is no batch {batch} of operations")
        first = rows[0]
        kind, outcomes = OperationKind(first.kind), dict[str, int]()
        for status, phase, count, *_ in rows:
            outcome = read_outcome(kind, OperationStatus(status), phase)
            outcomes[outcome] = outcomes.get(outcome, 0) + count
        return Tally(catalog=CatalogName(first.catalog), kind=kind, outcomes=outcomes, created_at=first.created_at)

    def targets(self, batch: BatchId) -> Sequence[tuple[CatalogName, str]]:
        """What the operations of a batch work on."""
        rows = self.session.execute(
            select(OperationRow.catalog, OperationRow.target).where(OperationRow.batch == batch)
        )
        return [(CatalogName(catalog), target) for catalog, target in rows]

    def pause_all(self, batch: BatchId, now: datetime) -> int:
        """Those that run and are not to be canceled."""
        running = (OperationRow.status == OperationStatus.RUNNING, OperationRow.cancel_asked.is_(False))
        return self._move(batch, running, status=OperationStatus.PAUSED, updated_at=now)

    def resume_all(self, batch: BatchId, now: datetime) -> int:
        """Those that are paused."""
        paused = (OperationRow.status == OperationStatus.PAUSED,)
        return self._move(batch, paused, status=OperationStatus.RUNNING, updated_at=now)

    def cancel_all(self, batch: BatchId, now: datetime) -> int:
        """What has not begun ends at once; the rest runs to clear away what it has left."""
        waiting = (OperationRow.status.in_(_UNFINISHED), OperationRow.phase == WAITING)
        ended = {"status": OperationStatus.CANCELED, "error": "canceled", "ended_at": now, "updated_at": now}
        count = self._move(batch, waiting, cancel_asked=True, **ended)
        begun = (OperationRow.status.in_(_UNFINISHED),)
        return count + self._move(batch, begun, cancel_asked=True, status=OperationStatus.RUNNING)

    def forget_checks(self, before: datetime) -> int:
        """Of a whole database there may be thousands, each time that somebody asks."""
        old = delete(OperationRow).where(OperationRow.kind == OperationKind.CHECK, OperationRow.ended_at < before)
        return len(self.session.execute(old.returning(OperationRow.number)).all())

    def _move(self, batch: BatchId, those: Sequence[ColumnElement[bool]], **values: Any) -> int:
        moved = update(OperationRow).where(OperationRow.batch == batch, *those).values(**values)
        return len(self.session.execute(moved.returning(OperationRow.number)).all())


def _operation_values(operation: Operation) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in _OPERATION}


def _operation(row: OperationRow) -> Operation:
    values = {name: getattr(row, name) for name in _OPERATION}
    return Operation(**values | {"kind": OperationKind(row.kind), "status": OperationStatus(row.status)})


@dataclass(frozen=True)
class SqlPolicies:
    """See catalog.ports.store.Policies."""

    session: ReadSession

    def get(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """Those of one scope."""
        row = self.session.get(PolicyRow, (catalog, encode_namespace(namespace)))
        return {} if row is None else dict(row.properties)

    def get_many(self, scopes: Collection[Scope]) -> Mapping[Scope, dict[str, str]]:
        """Those of all scopes that have some."""
        keys = [(catalog, encode_namespace(namespace)) for catalog, namespace in scopes]
        query = select(PolicyRow).where(tuple_(PolicyRow.catalog, PolicyRow.namespace).in_(keys))
        return {
            (CatalogName(row.catalog), decode_namespace(row.namespace) if row.namespace else ()): dict(row.properties)
            for row in self.session.scalars(query)
        }

    def put(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Replace those of one scope."""
        values = {"catalog": catalog, "namespace": encode_namespace(namespace), "properties": dict(properties)}
        upsert(self.session, PolicyRow, values)


@dataclass(frozen=True)
class SqlAnswers:
    """See catalog.ports.store.Answers."""

    session: ReadSession

    def find(self, key: str) -> StoredResponse | None:
        """What was answered under this key."""
        row = self.session.get(AnswerRow, key)
        if row is None:
            return None
        return StoredResponse(
            key=row.key, fingerprint=row.fingerprint, status=row.status, body=row.body, created_at=row.created_at
        )

    def add(self, answer: StoredResponse) -> None:
        """Conflict when a request with the same key was just applied: asking again finds the answer."""
        values = {name: getattr(answer, name) for name in StoredResponse.__slots__}
        if not insert_unless_taken(self.session, AnswerRow, values):
            raise Conflict(f"a request with idempotency key {answer.key} is being applied")

    def remove_before(self, moment: datetime) -> int:
        """Forget old answers; how many."""
        gone = self.session.execute(delete(AnswerRow).where(AnswerRow.created_at < moment).returning(AnswerRow.key))
        return len(gone.all())


@dataclass(frozen=True)
class SqlLeaders:
    """See catalog.ports.store.Leaders."""

    session: ReadSession

    def claim(self, holder: str, *, now: datetime, until: datetime) -> int | None:
        """Take or renew the leadership; its term, which is a new one where the holder is.

        A claim that ends later than any that could be made now is of a clock that was set back since: nobody would
        lead until it has come that far again.
        """
        beyond = until + (until - now)  # and not until alone: servers ask at slightly different moments
        mine_or_lapsed = or_(LeaderRow.holder == holder, LeaderRow.until < now, LeaderRow.until > beyond)
        term = case((LeaderRow.holder == holder, LeaderRow.term), else_=LeaderRow.term + 1)
        claimed = update(LeaderRow).where(mine_or_lapsed).values(holder=holder, until=until, term=term)
        taken = self.session.execute(claimed.returning(LeaderRow.term)).scalar_one_or_none()
        if taken is not None:
            return taken
        if self.session.get(LeaderRow, _BACKGROUND) is not None:
            return None
        first = {"name": _BACKGROUND, "holder": holder, "until": until, "term": 1}
        return 1 if insert_unless_taken(self.session, LeaderRow, first) else None

    def holds(self, holder: str, term: int) -> bool:
        """Its row stays as it is until this transaction ends (SQLite's writers are alone anyway)."""
        query = select(LeaderRow.holder, LeaderRow.term).where(LeaderRow.name == _BACKGROUND).with_for_update(read=True)
        return self.session.execute(query).one_or_none() == (holder, term)
