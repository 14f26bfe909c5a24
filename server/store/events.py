"""The history of commits in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update

from catalog.errors import DuplicateBatch
from catalog.history.change import Change, keep_changes
from catalog.history.commit import CommitEvent
from catalog.keyed.spec import BATCH_ID, WRITER_ID
from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from firn.protocol.history import Topic
from server.store import cursor as cursors
from server.store.rows import CommitEventRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_PLAIN = tuple(f.name for f in fields(CommitEvent) if f.name not in ("table", "id", "summary", "changes"))
_AT_ONCE = 1_000
"""The number of values in one statement, which databases limit."""


@dataclass(frozen=True)
class SqlEvents:
    """See catalog.ports.history.Events."""

    session: ReadSession

    def add(self, event: CommitEvent) -> None:
        """Add a commit; DuplicateBatch when the relation already has this batch of the writer."""
        values: dict[str, Any] = {name: getattr(event, name) for name in _PLAIN}
        values |= {
            "namespace": encode_namespace(event.table.namespace),
            "name": event.table.name,
            "summary": dict(event.summary),
            "changes": [change.to_json() for change in keep_changes(event.changes)],
            "topics": " ".join(sorted(event.topics)),
        }
        if insert_unless_taken(self.session, CommitEventRow, values):
            return
        # The batch is the only unique key of an event.
        writer, batch = str(event.writer_id), str(event.batch_id)
        earlier = self.find_batch(event.relation_id, writer, batch)
        raise DuplicateBatch(writer, batch, (earlier and earlier.snapshot_id) or 0)

    def find_batch(self, relation_id: RelationId, writer_id: str, batch_id: str) -> CommitEvent | None:
        """Find the commit with this batch."""
        row = self.session.scalar(
            select(CommitEventRow).where(
                CommitEventRow.relation_id == relation_id,
                CommitEventRow.writer_id == writer_id,
                CommitEventRow.batch_id == batch_id,
            ),
        )
        return None if row is None else to_event(row)

    def pending(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """Sum rows, bytes and commits of appends above a sequence number, with the oldest time."""
        return self._pending(CommitEventRow.relation_id == change_id, CommitEventRow.sequence_number > above)

    def pending_of_writers(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """Sum appends like `pending`, without those of sync jobs."""
        by_no_job = CommitEventRow.job_id.is_(None)
        return self._pending(CommitEventRow.relation_id == change_id, CommitEventRow.sequence_number > above, by_no_job)

    def _pending(self, *which: ColumnElement[bool]) -> tuple[int, int, int, datetime | None]:
        row = self.session.execute(
            select(
                func.coalesce(func.sum(CommitEventRow.added_rows), 0),
                func.coalesce(func.sum(CommitEventRow.added_bytes), 0),
                func.count(),
                func.min(CommitEventRow.committed_at),
            ).where(*which, CommitEventRow.operation == "append"),
        ).one()
        return int(row[0]), int(row[1]), int(row[2]), row[3]

    def newest_before(self, relation_id: RelationId, moment: datetime) -> int:
        """Find the highest sequence number of commits before a time; 0 for none."""
        query = select(CommitEventRow.sequence_number).where(
            CommitEventRow.relation_id == relation_id,
            CommitEventRow.committed_at < moment,
            CommitEventRow.sequence_number.is_not(None),
        )
        # The numbers rise with time: along their index only the commits since then are passed over.
        return self.session.scalar(query.order_by(CommitEventRow.sequence_number.desc()).limit(1)) or 0

    def first_after(self, relation_id: RelationId, snapshot_id: int | None) -> datetime | None:
        """Find the time of the first snapshot after this one, by two indexes; None if the events do not tell it."""
        of = CommitEventRow.relation_id == relation_id
        pinned = select(CommitEventRow.sequence_number).where(of, CommitEventRow.snapshot_id == snapshot_id)
        number = 0 if snapshot_id is None else self.session.scalar(pinned.limit(1))
        if number is None:
            return None
        later = select(CommitEventRow.committed_at).where(of, CommitEventRow.sequence_number > number)
        return self.session.scalar(later.order_by(CommitEventRow.sequence_number).limit(1))

    def of_snapshots(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> Mapping[int, CommitEvent]:
        """The events of these snapshots, by snapshot id."""
        ids, events = sorted(snapshot_ids), dict[int, CommitEvent]()
        for start in range(0, len(ids), _AT_ONCE):
            query = select(CommitEventRow).where(
                CommitEventRow.relation_id == relation_id,
                CommitEventRow.snapshot_id.in_(ids[start : start + _AT_ONCE]),
            )
            events |= {
                row.snapshot_id: to_event(row) for row in self.session.scalars(query) if row.snapshot_id is not None
            }
        return events

    def of_catalog(self, catalog: CatalogName, snapshot_id: int) -> Sequence[CommitEvent]:
        """The events of this snapshot in all tables, also in tables that are gone, newest first."""
        # By the snapshot alone: with a catalog or an order in it, SQLite would read all events of the catalog.
        rows = self.session.scalars(select(CommitEventRow).where(CommitEventRow.snapshot_id == snapshot_id))
        events = [to_event(row) for row in rows if row.catalog == catalog]
        return sorted(events, key=lambda event: event.id, reverse=True)

    def find(self, event_id: int) -> CommitEvent | None:
        """The commit with this number."""
        row = self.session.get(CommitEventRow, event_id)
        return None if row is None else to_event(row)

    def between(
        self, relation_id: RelationId, after: int, until: int, topics: Collection[Topic], *, limit: int
    ) -> Sequence[CommitEvent]:
        """List the events numbered above `after` and up to `until`, oldest first."""
        query = select(CommitEventRow).where(
            CommitEventRow.relation_id == relation_id,
            CommitEventRow.id > after,
            CommitEventRow.id <= until,
            or_(*(CommitEventRow.topics.contains(topic) for topic in topics)),
        )
        return [to_event(row) for row in self.session.scalars(query.order_by(CommitEventRow.id).limit(limit))]

    def forget_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """Let writers send again what these snapshots brought; the summaries go on telling who brought it."""
        ids = sorted(snapshot_ids)
        for start in range(0, len(ids), _AT_ONCE):
            self.session.execute(
                update(CommitEventRow)
                .where(
                    CommitEventRow.relation_id == relation_id,
                    CommitEventRow.snapshot_id.in_(ids[start : start + _AT_ONCE]),
                )
                .values(writer_id=None, batch_id=None)
            )

    def recall_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """Take writer and batch out of the summaries again, where nobody else has brought them since."""
        for event in self.of_snapshots(relation_id, snapshot_ids).values():
            writer, batch = event.summary.get(WRITER_ID), event.summary.get(BATCH_ID)
            if not writer or not batch or self.find_batch(relation_id, writer, batch) is not None:
                continue
            self.session.execute(
                update(CommitEventRow).where(CommitEventRow.id == event.id).values(writer_id=writer, batch_id=batch)
            )

    def list(
        self,
        catalog: CatalogName | None,
        relation_ids: Collection[RelationId] | None,
        *,
        limit: int,
        cursor: str | None = None,
        topics: Collection[Topic] = (),
    ) -> Page[CommitEvent]:
        """List commits, newest first."""
        query = select(CommitEventRow)
        if topics:  # no topic's name contains another's
            query = query.where(or_(*(CommitEventRow.topics.contains(topic) for topic in topics)))
        if catalog is not None:
            query = query.where(CommitEventRow.catalog == catalog)
        if relation_ids is not None:
            query = query.where(CommitEventRow.relation_id.in_(relation_ids))
        if cursor is not None:
            query = query.where(CommitEventRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(CommitEventRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([to_event(row) for row in rows[:limit]], more)

    def last_id(self) -> int:
        """Get the last event id, which grows with every commit: a cheap ETag for pages."""
        return self.session.scalar(select(func.coalesce(func.max(CommitEventRow.id), 0))) or 0


def to_event(row: CommitEventRow) -> CommitEvent:
    """The commit of a row."""
    plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    return CommitEvent(
        **plain,
        id=row.id,
        table=TableName(decode_namespace(row.namespace), row.name),
        summary=row.summary,
        changes=[Change.from_json(stored) for stored in row.changes],
    )
