"""File layouts of tables in the database: file counting writes them, the planner reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update

from catalog.files.file_layout import FileLayout
from catalog.names import RelationId
from server.store.rows import FileLayoutRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert

QUICK_SECONDS = 0.5
"""A faster count may run after every commit."""
PAUSE = 20
"""A slower count waits this many times its duration, so counting takes at most a twentieth of a processor."""


@dataclass(frozen=True)
class SqlFileLayouts:
    """See catalog.ports.work.FileLayouts."""

    session: ReadSession

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, FileLayout]:
        """Get existing layouts, in one query."""
        query = select(FileLayoutRow.relation_id, FileLayoutRow.layout)
        rows = self.session.execute(query.where(FileLayoutRow.relation_id.in_(relation_ids)))
        return {RelationId(key): FileLayout.from_json(layout) for key, layout in rows if layout is not None}

    def request_counts(self, relation_ids: Collection[RelationId], now: datetime) -> None:
        """Request counts; an earlier request keeps its time. All callers lock rows in the same order."""
        query = select(FileLayoutRow).where(FileLayoutRow.relation_id.in_(relation_ids))
        rows = {row.relation_id: row for row in self.session.scalars(query)}
        for relation_id in sorted(relation_ids):
            row = rows.get(relation_id)
            if row is None:
                values = {"relation_id": relation_id, "layout": None, "counted_at": None, "wanted_at": now}
                insert_unless_taken(self.session, FileLayoutRow, values)
                continue
            condition = (FileLayoutRow.relation_id == relation_id, FileLayoutRow.wanted_at.is_(None))
            statement = update(FileLayoutRow).where(*condition).values(wanted_at=_find_earliest(row, now))
            self.session.execute(statement.execution_options(synchronize_session=False))

    def list_requested(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """List tables with a due count, only from the index."""
        query = select(FileLayoutRow.relation_id).where(FileLayoutRow.wanted_at <= until)
        return [RelationId(key) for key in self.session.scalars(query.order_by(FileLayoutRow.wanted_at).limit(limit))]

    def put(self, relation_id: RelationId, layout: FileLayout, now: datetime) -> None:
        """Insert or replace a layout, which completes the request for a count."""
        counted = {"layout": layout.as_json(), "counted_at": now, "wanted_at": None}
        upsert(self.session, FileLayoutRow, {"relation_id": relation_id, **counted})

    def put_off(self, relation_id: RelationId, until: datetime | None) -> None:
        """Postpone a count; the last layout stays."""
        statement = update(FileLayoutRow).where(FileLayoutRow.relation_id == relation_id)
        self.session.execute(statement.values(wanted_at=until).execution_options(synchronize_session=False))

    def delete(self, relation_id: RelationId) -> None:
        """Remove a table's layout."""
        self.session.execute(delete(FileLayoutRow).where(FileLayoutRow.relation_id == relation_id))


def _find_earliest(row: FileLayoutRow, now: datetime) -> datetime:
    """Find the earliest time of the next count."""
    seconds = float((row.layout or {}).get("seconds", 0.0))
    if row.counted_at is None or seconds < QUICK_SECONDS:
        return now
    return max(now, row.counted_at + timedelta(seconds=PAUSE * seconds))
