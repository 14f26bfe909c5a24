"""Operations in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, delete, func, insert, select, update

from catalog.errors import NotFound
from catalog.jobs.operation import WAITING, BatchId, Operation, OperationId, Tally, read_outcome
from catalog.names import CatalogName
from catalog.ports.page import Page
from firn.protocol.operations import OperationKind, OperationStatus
from server.store import cursor as cursors
from server.store.job_rows import OperationRow
from server.store.session import ReadSession

_UNFINISHED = (OperationStatus.RUNNING, OperationStatus.PAUSED)
_OPERATION = tuple(f.name for f in fields(Operation))


@dataclass(frozen=True)
class SqlOperations:
    """See catalog.ports.operations.Operations."""

    session: ReadSession

    def add(self, operation: Operation) -> None:
        """Add an operation."""
        self.session.add(OperationRow(**_operation_values(operation)))
        self.session.flush()

    def get(self, operation_id: OperationId) -> Operation:
        """Get an operation; NotFound."""
        return self._get_row(select(OperationRow).where(OperationRow.id == operation_id), operation_id)

    def lock(self, operation_id: OperationId) -> Operation:
        """Get an operation and lock it until the transaction ends; NotFound."""
        return self._get_row(
            select(OperationRow).where(OperationRow.id == operation_id).with_for_update(), operation_id
        )

    def _get_row(self, query: Select[OperationRow], operation_id: OperationId) -> Operation:
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NotFound(f"operation {operation_id} does not exist")
        return to_operation(row)

    def put(self, operation: Operation) -> None:
        """Replace an operation."""
        values = _operation_values(operation)
        self.session.execute(update(OperationRow).where(OperationRow.id == operation.id).values(**values))

    def unfinished(self) -> Sequence[Operation]:
        """List operations that run, ran when their server died, or are paused; oldest first."""
        query = select(OperationRow).where(OperationRow.status.in_(_UNFINISHED)).order_by(OperationRow.number)
        return [to_operation(row) for row in self.session.scalars(query)]

    def working_on(self, catalog: CatalogName, targets: Collection[str]) -> Mapping[str, Operation]:
        """Find unfinished upgrades and downgrades of these tables."""
        names, operations = list(targets), dict[str, Operation]()
        for start in range(0, len(names), 500):
            query = select(OperationRow).where(
                OperationRow.catalog == catalog,
                OperationRow.target.in_(names[start : start + 500]),
                OperationRow.status.in_(_UNFINISHED),
                OperationRow.kind.in_([OperationKind.UPGRADE, OperationKind.DOWNGRADE]),
            )
            operations |= {row.target: to_operation(row) for row in self.session.scalars(query)}
        return operations

    def next(
        self, kinds: Collection[OperationKind], *, but_for: Collection[OperationId], limit: int
    ) -> Sequence[Operation]:
        """List the next operations: cancellations, then single operations, then batches; oldest first."""
        query = select(OperationRow).where(
            OperationRow.status == OperationStatus.RUNNING,
            OperationRow.kind.in_(kinds),
            OperationRow.id.not_in(but_for),
        )
        alone_first = case((OperationRow.batch.is_(None), 0), else_=1)
        order = (OperationRow.cancel_requested.desc(), alone_first, OperationRow.number)
        return [to_operation(row) for row in self.session.scalars(query.order_by(*order).limit(limit))]

    def list(
        self,
        *,
        catalog: CatalogName | None = None,
        batch: BatchId | None = None,
        target: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """List operations, newest first; those of a batch in the order of execution."""
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
        return Page([to_operation(row) for row in rows[:limit]], more)

    def add_all(self, operations: Collection[Operation]) -> None:
        """Add operations, possibly thousands."""
        if operations:
            self.session.execute(insert(OperationRow), [_operation_values(operation) for operation in operations])

    def tally(self, batch: BatchId) -> Tally:
        """Count the operations of a batch by outcome, in SQL since there may be thousands; NotFound."""
        state = (OperationRow.status, OperationRow.phase)
        same = (OperationRow.catalog, OperationRow.kind, OperationRow.created_at)
        query = select(*state, func.count(), *same).where(OperationRow.batch == batch).group_by(*state, *same)
        rows = self.session.execute(query).all()
        if not rows:
            raise NotFound(f"batch {batch} does not exist")
        first = rows[0]
        kind, outcomes = OperationKind(first.kind), dict[str, int]()
        for status, phase, count, *_ in rows:
            outcome = read_outcome(kind, OperationStatus(status), phase)
            outcomes[outcome] = outcomes.get(outcome, 0) + count
        return Tally(catalog=CatalogName(first.catalog), kind=kind, outcomes=outcomes, created_at=first.created_at)

    def failures(self, batch: BatchId) -> int:
        """Count the failed operations of a batch."""
        failed = (OperationRow.batch == batch, OperationRow.status == OperationStatus.FAILED)
        return self.session.scalar(select(func.count()).select_from(OperationRow).where(*failed)) or 0

    def last_ends(self, batch: BatchId, *, limit: int) -> Sequence[datetime]:
        """List the times at which the last operations of a batch ended, newest first."""
        ended = (OperationRow.batch == batch, OperationRow.ended_at.is_not(None))
        query = select(OperationRow.ended_at).where(*ended).order_by(OperationRow.ended_at.desc()).limit(limit)
        return [at for at in self.session.scalars(query) if at is not None]

    def batch_before(self, batch: BatchId, catalog: CatalogName, kind: OperationKind) -> BatchId | None:
        """Find the last other batch of this kind in the catalog of which an operation has ended."""
        query = select(OperationRow.batch).where(
            OperationRow.catalog == catalog,
            OperationRow.kind == kind,
            OperationRow.batch.is_not(None),
            OperationRow.batch != batch,
            OperationRow.ended_at.is_not(None),
        )
        other = self.session.scalar(query.order_by(OperationRow.number.desc()).limit(1))
        return None if other is None else BatchId(other)

    def count_ahead(self, batch: BatchId) -> int:
        """Count the running operations that began or wait before those of a batch."""
        first = select(func.min(OperationRow.number)).where(OperationRow.batch == batch).scalar_subquery()
        ahead = (OperationRow.status == OperationStatus.RUNNING, OperationRow.number < first)
        return self.session.scalar(select(func.count()).select_from(OperationRow).where(*ahead)) or 0

    def targets(self, batch: BatchId) -> Sequence[tuple[CatalogName, str]]:
        """List the tables of a batch's operations."""
        rows = self.session.execute(
            select(OperationRow.catalog, OperationRow.target).where(OperationRow.batch == batch)
        )
        return [(CatalogName(catalog), target) for catalog, target in rows]

    def pause_all(self, batch: BatchId, now: datetime) -> int:
        """Pause the running operations of a batch, without those that somebody canceled."""
        running = (OperationRow.status == OperationStatus.RUNNING, OperationRow.cancel_requested.is_(False))
        return self._move(batch, running, status=OperationStatus.PAUSED, updated_at=now)

    def resume_all(self, batch: BatchId, now: datetime) -> int:
        """Resume the paused operations of a batch."""
        paused = (OperationRow.status == OperationStatus.PAUSED,)
        return self._move(batch, paused, status=OperationStatus.RUNNING, updated_at=now)

    def cancel_all(self, batch: BatchId, now: datetime) -> int:
        """Cancel a batch: waiting operations end at once, others continue in order to clean up."""
        waiting = (OperationRow.status.in_(_UNFINISHED), OperationRow.phase == WAITING)
        ended = {"status": OperationStatus.CANCELED, "error": "canceled", "ended_at": now, "updated_at": now}
        count = self._move(batch, waiting, cancel_requested=True, **ended)
        begun = (OperationRow.status.in_(_UNFINISHED),)
        return count + self._move(batch, begun, cancel_requested=True, status=OperationStatus.RUNNING)

    def forget_checks(self, before: datetime) -> int:
        """Remove old checks; one request can add thousands."""
        old = delete(OperationRow).where(OperationRow.kind == OperationKind.CHECK, OperationRow.ended_at < before)
        return len(self.session.execute(old.returning(OperationRow.number)).all())

    def _move(self, batch: BatchId, conditions: Sequence[ColumnElement[bool]], **values: Any) -> int:
        moved = update(OperationRow).where(OperationRow.batch == batch, *conditions).values(**values)
        return len(self.session.execute(moved.returning(OperationRow.number)).all())


def _operation_values(operation: Operation) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in _OPERATION}


def to_operation(row: OperationRow) -> Operation:
    """The operation of a row."""
    values = {name: getattr(row, name) for name in _OPERATION}
    return Operation(**values | {"kind": OperationKind(row.kind), "status": OperationStatus(row.status)})
