"""Backfills of pipelines' tables in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, or_, select, update

from catalog.errors import NotFound
from catalog.pipelines.backfill import Backfill, BackfillId, Chunk, ChunkTake, DoneBeside
from catalog.pipelines.pipeline import CheckpointId, PipelineTableId
from catalog.ports.page import Page
from firn.protocol.backfills import BackfillStatus
from server.store import cursor as cursors
from server.store.pipeline_rows import PipelineBackfillRow
from server.store.session import ReadSession

_SAME = tuple(field.name for field in fields(Backfill) if field.name != "chunks")


@dataclass(frozen=True)
class SqlBackfills:
    """See catalog.ports.pipelines.Backfills."""

    session: ReadSession

    def add(self, backfill: Backfill) -> None:
        """Store a new backfill."""
        self.session.add(PipelineBackfillRow(**_to_values(backfill)))
        self.session.flush()

    def put(self, backfill: Backfill) -> None:
        """Replace a backfill."""
        of = PipelineBackfillRow.id == backfill.id
        self.session.execute(update(PipelineBackfillRow).where(of).values(_to_values(backfill)))

    def get(self, backfill_id: BackfillId) -> Backfill:
        """Get a backfill; NotFound."""
        query = select(PipelineBackfillRow).where(PipelineBackfillRow.id == backfill_id)
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NotFound(f"there is no backfill {backfill_id}")
        return _to_backfill(row)

    def list(self, table_ids: Sequence[PipelineTableId], *, limit: int, cursor: str | None = None) -> Page[Backfill]:
        """List the backfills of tables, newest first."""
        query = select(PipelineBackfillRow).where(PipelineBackfillRow.table_id.in_(table_ids))
        if cursor is not None:
            query = query.where(PipelineBackfillRow.number < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(PipelineBackfillRow.number.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_to_backfill(row) for row in rows[:limit]], more)

    def list_open(self, table_id: PipelineTableId, *, after: int | None) -> Sequence[Backfill]:
        """List the open backfills of a table, and those that a later checkpoint has finished, oldest first."""
        is_open = PipelineBackfillRow.status.in_([status.value for status in BackfillStatus if status.is_open])
        is_finished = PipelineBackfillRow.status == BackfillStatus.FINISHED
        undone = and_(is_finished, PipelineBackfillRow.finished_by > after) if after is not None else None
        query = select(PipelineBackfillRow).where(
            PipelineBackfillRow.table_id == table_id, is_open if undone is None else or_(is_open, undone)
        )
        rows = self.session.scalars(
            query.order_by(PipelineBackfillRow.number).execution_options(populate_existing=True)
        )
        return [_to_backfill(row) for row in rows]

    def list_active(self, table_ids: Collection[PipelineTableId]) -> Mapping[PipelineTableId, Sequence[Backfill]]:
        """List the active backfills of tables, oldest first, by an index."""
        is_active = PipelineBackfillRow.status == BackfillStatus.ACTIVE.value
        query = select(PipelineBackfillRow).where(is_active, PipelineBackfillRow.table_id.in_(table_ids))
        backfills: dict[PipelineTableId, list[Backfill]] = {}
        for row in self.session.scalars(query.order_by(PipelineBackfillRow.number)):
            backfills.setdefault(PipelineTableId(row.table_id), []).append(_to_backfill(row))
        return backfills

    def forget(self, table_id: PipelineTableId, *, keep: int) -> None:
        """Remove the oldest ended backfills of a table."""
        of_table = PipelineBackfillRow.table_id == table_id
        newest = select(PipelineBackfillRow.number).where(of_table)
        newest = newest.order_by(PipelineBackfillRow.number.desc()).limit(keep)
        ended = PipelineBackfillRow.ended_at.is_not(None)
        numbers = self.session.scalars(
            select(PipelineBackfillRow.number).where(of_table, ended, PipelineBackfillRow.number.not_in(newest))
        ).all()
        self.session.execute(delete(PipelineBackfillRow).where(PipelineBackfillRow.number.in_(numbers)))


def _to_values(backfill: Backfill) -> dict[str, Any]:
    chunks = [asdict(chunk) for chunk in backfill.chunks]
    for chunk in chunks:
        chunk["done_at"] = None if chunk["done_at"] is None else chunk["done_at"].isoformat()
    return {**{name: getattr(backfill, name) for name in _SAME}, "chunks": chunks}


def _to_backfill(row: PipelineBackfillRow) -> Backfill:
    values = {name: getattr(row, name) for name in _SAME}
    return Backfill(
        **{
            **values,
            "id": BackfillId(row.id),
            "table_id": PipelineTableId(row.table_id),
            "since": None if row.since is None else CheckpointId(row.since),
            "waits_for": None if row.waits_for is None else CheckpointId(row.waits_for),
            "status": BackfillStatus(row.status),
        },
        chunks=[_to_chunk(chunk) for chunk in row.chunks],
    )


def _to_chunk(stored: dict[str, Any]) -> Chunk:
    done_at, take, beside = stored["done_at"], stored.get("take"), stored.get("beside")
    more = {
        "done_at": None if done_at is None else datetime.fromisoformat(done_at),
        "take": None if take is None else ChunkTake(**take),
        "beside": None if beside is None else DoneBeside(**beside),
    }
    return Chunk(**{**stored, **more})
