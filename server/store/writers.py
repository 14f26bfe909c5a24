"""Registered writers and their positions in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Select, delete, func, select

from catalog.commits.writers import Writer
from catalog.names import RelationId
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.session import ReadSession
from server.store.stream_rows import WriterRow
from server.store.upsert import insert_unless_taken, upsert

_FIELDS = tuple(field.name for field in fields(Writer))


@dataclass(frozen=True)
class SqlWriters:
    """See catalog.ports.writers.Writers."""

    session: ReadSession

    def add(self, writer: Writer) -> bool:
        """Store a new writer; False if the table has one of this name already."""
        return insert_unless_taken(self.session, WriterRow, _to_values(writer))

    def find(self, relation_id: RelationId, name: str) -> Writer | None:
        """Find a writer by its name."""
        row = self.session.scalar(_select_writer(relation_id, name))
        return None if row is None else to_writer(row)

    def lock(self, relation_id: RelationId, name: str) -> Writer | None:
        """Find a writer, and lock it until the transaction ends (SQLite has one writing transaction at a time)."""
        row = self.session.scalar(_select_writer(relation_id, name).with_for_update())
        return None if row is None else to_writer(row)

    def lock_all(self, relation_id: RelationId) -> Sequence[Writer]:
        """Lock all writers of a table, in one order for all transactions."""
        query = select(WriterRow).where(WriterRow.relation_id == relation_id).order_by(WriterRow.name)
        return [to_writer(row) for row in self.session.scalars(query.with_for_update())]

    def list_all(self, relation_id: RelationId) -> Sequence[Writer]:
        """List all writers of a table by name."""
        query = select(WriterRow).where(WriterRow.relation_id == relation_id).order_by(WriterRow.name)
        return [to_writer(row) for row in self.session.scalars(query)]

    def put(self, writer: Writer) -> None:
        """Replace a stored writer."""
        upsert(self.session, WriterRow, _to_values(writer))

    def count(self, relation_id: RelationId) -> int:
        """Count the writers of a table."""
        return self.session.scalar(select(func.count()).where(WriterRow.relation_id == relation_id)) or 0

    def list(self, relation_id: RelationId, *, limit: int, cursor: str | None = None) -> Page[Writer]:
        """List the writers of a table by name."""
        query = select(WriterRow).where(WriterRow.relation_id == relation_id)
        if cursor is not None:
            query = query.where(WriterRow.name > cursors.decode_texts(cursor, 1)[0])
        rows = self.session.scalars(query.order_by(WriterRow.name).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].name) if len(rows) > limit else None
        return Page([to_writer(row) for row in rows[:limit]], more)

    def delete(self, relation_id: RelationId) -> None:
        """Remove the writers of a table that is gone."""
        self.session.execute(delete(WriterRow).where(WriterRow.relation_id == relation_id))


def _select_writer(relation_id: RelationId, name: str) -> Select[WriterRow]:
    return select(WriterRow).where(WriterRow.relation_id == relation_id, WriterRow.name == name)


def _to_values(writer: Writer) -> dict[str, Any]:
    return {name: getattr(writer, name) for name in _FIELDS}


def to_writer(row: WriterRow) -> Writer:
    """Convert a row to a writer."""
    return Writer(**{name: getattr(row, name) for name in _FIELDS})
