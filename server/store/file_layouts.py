"""How files of tables lie, in the database: put by those who count them, read by the planner."""

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
"""A count that takes less may be made after every commit."""
PAUSE = 20
"""A slower one waits for so many times as long: counting takes a twentieth of a processor at most."""


@dataclass(frozen=True)
class SqlFileLayouts:
    """See catalog.ports.work.FileLayouts."""

    session: ReadSession

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, FileLayout]:
        """Those that exist, in one query."""
        query = select(FileLayoutRow.relation_id, FileLayoutRow.layout)
        rows = self.session.execute(query.where(FileLayoutRow.relation_id.in_(relation_ids)))
        return {RelationId(one): FileLayout.from_json(layout) for one, layout in rows if layout is not None}

    def want(self, relation_ids: Collection[RelationId], now: datetime) -> None:
        """What is wanted already keeps its place. Rows are locked in one order for all."""
        query = select(FileLayoutRow).where(FileLayoutRow.relation_id.in_(relation_ids))
        known = {row.relation_id: row for row in self.session.scalars(query)}
        for relation_id in sorted(relation_ids):
            row = known.get(relation_id)
            if row is None:
                values = {"relation_id": relation_id, "layout": None, "counted_at": None, "wanted_at": now}
                insert_unless_taken(self.session, FileLayoutRow, values)
                continue
            its = (FileLayoutRow.relation_id == relation_id, FileLayoutRow.wanted_at.is_(None))
            asked = update(FileLayoutRow).where(*its).values(wanted_at=_from(row, now))
            self.session.execute(asked.execution_options(synchronize_session=False))

    def wanted(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """By the index alone."""
        query = select(FileLayoutRow.relation_id).where(FileLayoutRow.wanted_at <= until)
        return [RelationId(one) for one in self.session.scalars(query.order_by(FileLayoutRow.wanted_at).limit(limit))]

    def put(self, relation_id: RelationId, layout: FileLayout, now: datetime) -> None:
        """Insert or replace."""
        counted = {"layout": layout.as_json(), "counted_at": now, "wanted_at": None}
        upsert(self.session, FileLayoutRow, {"relation_id": relation_id, **counted})

    def put_off(self, relation_id: RelationId, until: datetime | None) -> None:
        """Whatever was counted before stays."""
        its = update(FileLayoutRow).where(FileLayoutRow.relation_id == relation_id)
        self.session.execute(its.values(wanted_at=until).execution_options(synchronize_session=False))

    def forget(self, relation_id: RelationId) -> None:
        """Nothing is kept."""
        self.session.execute(delete(FileLayoutRow).where(FileLayoutRow.relation_id == relation_id))


def _from(row: FileLayoutRow, now: datetime) -> datetime:
    """When it may be counted again."""
    seconds = float((row.layout or {}).get("seconds", 0.0))
    if row.counted_at is None or seconds < QUICK_SECONDS:
        return now
    return max(now, row.counted_at + timedelta(seconds=PAUSE * seconds))
