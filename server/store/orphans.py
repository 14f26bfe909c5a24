"""Batches of orphans in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from sqlalchemy import delete, or_, select, update

from catalog.errors import NotFound
from catalog.jobs.job import JobId
from catalog.names import CatalogName, RelationId
from catalog.ports.page import Page
from catalog.removal.orphan_removal import OrphanBatch
from firn.protocol.orphans import BatchState
from server.store import cursor as cursors
from server.store.job_rows import OrphanBatchRow
from server.store.session import ReadSession

_FIELDS = tuple(field.name for field in fields(OrphanBatch))


@dataclass(frozen=True)
class SqlOrphanBatches:
    """See catalog.ports.orphans.OrphanBatches."""

    session: ReadSession

    def add(self, batch: OrphanBatch) -> None:
        """Store a new one."""
        self.session.add(OrphanBatchRow(**_values(batch)))
        self.session.flush()

    def lock(self, batch_id: UUID) -> OrphanBatch:
        """Kept from changing until this transaction ends (SQLite's writers are alone anyway)."""
        query = select(OrphanBatchRow).where(OrphanBatchRow.id == batch_id).with_for_update()
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NotFound(f"there is no batch {batch_id} of orphans")
        return _batch(row)

    def put(self, batch: OrphanBatch) -> None:
        """Replace it."""
        self.session.execute(update(OrphanBatchRow).where(OrphanBatchRow.id == batch.id).values(**_values(batch)))

    def remove(self, batch_id: UUID) -> None:
        """Forget it."""
        self.session.execute(delete(OrphanBatchRow).where(OrphanBatchRow.id == batch_id))

    def of_table(self, relation_id: RelationId, states: Collection[BatchState]) -> Sequence[OrphanBatch]:
        """Oldest first."""
        query = select(OrphanBatchRow).where(
            OrphanBatchRow.relation_id == relation_id, OrphanBatchRow.state.in_([*states])
        )
        return [_batch(row) for row in self.session.scalars(query.order_by(OrphanBatchRow.number))]

    def find_restored(self, relation_id: RelationId) -> Collection[str]:
        """Of all its batches."""
        query = select(OrphanBatchRow.kept).where(OrphanBatchRow.relation_id == relation_id)
        return {path for kept in self.session.scalars(query) for path in kept}

    def list(
        self,
        *,
        relation_id: RelationId | None = None,
        job_id: JobId | None = None,
        states: Collection[BatchState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[OrphanBatch]:
        """Oldest first."""
        query = select(OrphanBatchRow)
        if relation_id is not None:
            query = query.where(OrphanBatchRow.relation_id == relation_id)
        if job_id is not None:
            query = query.where(or_(OrphanBatchRow.job_id == job_id, OrphanBatchRow.deleted_by == job_id))
        if states:
            query = query.where(OrphanBatchRow.state.in_([*states]))
        if cursor is not None:
            query = query.where(OrphanBatchRow.number > cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(OrphanBatchRow.number).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_batch(row) for row in rows[:limit]], more)


def _values(batch: OrphanBatch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in _FIELDS} | {"kept": list(batch.kept)}


def _batch(row: OrphanBatchRow) -> OrphanBatch:
    values: dict[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    values |= {"state": BatchState(row.state), "kept": tuple(row.kept), "catalog": CatalogName(row.catalog)}
    return OrphanBatch(**values)
