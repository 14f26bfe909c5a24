"""The history of commits in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from catalog.commit import CommitEvent
from catalog.errors import DuplicateBatch
from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.rows import CommitEventRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_PLAIN = tuple(f.name for f in fields(CommitEvent) if f.name not in ("table", "id", "summary"))


@dataclass(frozen=True)
class SqlEvents:
    """See catalog.ports.store.Events."""

    session: ReadSession

    def add(self, event: CommitEvent) -> None:
        """DuplicateBatch when the same writer's batch is on this relation already."""
        values: dict[str, Any] = {name: getattr(event, name) for name in _PLAIN}
        values |= {
            "namespace": encode_namespace(event.table.namespace),
            "name": event.table.name,
            "summary": dict(event.summary),
        }
        if insert_unless_taken(self.session, CommitEventRow, values):
            return
        # An event has no other key that could be taken.
        writer, batch = str(event.writer_id), str(event.batch_id)
        found = self.find_batch(event.relation_id, writer, batch)
        raise DuplicateBatch(writer, batch, (found and found.snapshot_id) or 0)

    def find_batch(self, relation_id: RelationId, writer_id: str, batch_id: str) -> CommitEvent | None:
        """The commit that brought this batch."""
        row = self.session.scalar(
            select(CommitEventRow).where(
                CommitEventRow.relation_id == relation_id,
                CommitEventRow.writer_id == writer_id,
                CommitEventRow.batch_id == batch_id,
            ),
        )
        return None if row is None else _event(row)

    def pending(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """Rows, bytes, commits and the oldest time of appends above a sequence number."""
        row = self.session.execute(
            select(
                func.coalesce(func.sum(CommitEventRow.added_rows), 0),
                func.coalesce(func.sum(CommitEventRow.added_bytes), 0),
                func.count(),
                func.min(CommitEventRow.committed_at),
            ).where(
                CommitEventRow.relation_id == change_id,
                CommitEventRow.sequence_number > above,
                CommitEventRow.operation == "append",
            ),
        ).one()
        return int(row[0]), int(row[1]), int(row[2]), row[3]

    def of_snapshots(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> Mapping[int, CommitEvent]:
        """The events of these snapshots, by snapshot id."""
        query = select(CommitEventRow).where(
            CommitEventRow.relation_id == relation_id, CommitEventRow.snapshot_id.in_(snapshot_ids)
        )
        return {row.snapshot_id: _event(row) for row in self.session.scalars(query) if row.snapshot_id is not None}

    def list(
        self,
        catalog: CatalogName | None,
        relation_ids: Collection[RelationId] | None,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[CommitEvent]:
        """Newest first."""
        query = select(CommitEventRow)
        if catalog is not None:
            query = query.where(CommitEventRow.catalog == catalog)
        if relation_ids is not None:
            query = query.where(CommitEventRow.relation_id.in_(relation_ids))
        if cursor is not None:
            query = query.where(CommitEventRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(CommitEventRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_event(row) for row in rows[:limit]], more)

    def last_id(self) -> int:
        """Rises with every commit: a cheap ETag for pages."""
        return self.session.scalar(select(func.coalesce(func.max(CommitEventRow.id), 0))) or 0


def _event(row: CommitEventRow) -> CommitEvent:
    plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    return CommitEvent(
        **plain, id=row.id, table=TableName(decode_namespace(row.namespace), row.name), summary=row.summary
    )
