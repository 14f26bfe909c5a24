"""Entries of imports, and the secrets of running ones, in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select, update

from catalog.imports.entry import Entry
from catalog.jobs.operation import OperationId
from catalog.names import SEPARATOR, encode_namespace
from catalog.ports.page import Page
from firn.protocol.imports import EntryKind, EntryState
from firn.protocol.locations import list_spellings
from firn.protocol.operations import OperationKind
from server.store import cursor as cursors
from server.store.job_rows import ImportEntryRow, OperationRow, OperationSecretRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_CLAIMING = (EntryState.READY, EntryState.REGISTERED, EntryState.REFRESHED, EntryState.THERE)


@dataclass(frozen=True)
class SqlImportEntries:
    """See catalog.ports.imports.ImportEntries."""

    session: ReadSession

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries."""
        self.session.add_all(ImportEntryRow(**_values(entry)) for entry in entries)
        self.session.flush()

    def put(self, entry: Entry) -> None:
        """Replace an entry."""
        key = (ImportEntryRow.operation_id == entry.operation_id, ImportEntryRow.number == entry.number)
        self.session.execute(update(ImportEntryRow).where(*key).values(**_values(entry)))

    def clear(self, operation_id: OperationId) -> None:
        """Remove all entries of an import."""
        self.session.execute(delete(ImportEntryRow).where(ImportEntryRow.operation_id == operation_id))

    def waiting(self, operation_id: OperationId, *, limit: int) -> Sequence[Entry]:
        """List the unprocessed entries in order."""
        query = select(ImportEntryRow).where(
            ImportEntryRow.operation_id == operation_id, ImportEntryRow.state == EntryState.FOUND
        )
        return [_entry(row) for row in self.session.scalars(query.order_by(ImportEntryRow.number).limit(limit))]

    def earlier(self, entry: Entry) -> Entry | None:
        """Find an earlier entry with the same name or location."""
        same_name = (ImportEntryRow.namespace == encode_namespace(entry.namespace)) & (
            ImportEntryRow.name == entry.name
        )
        same_location = ImportEntryRow.location.in_(sorted(list_spellings(entry.location or "")))
        query = select(ImportEntryRow).where(
            ImportEntryRow.operation_id == entry.operation_id,
            ImportEntryRow.state.in_(_CLAIMING),
            ImportEntryRow.number < entry.number,
            ImportEntryRow.kind != EntryKind.NAMESPACE,
            or_(same_name, same_location),
        )
        row = self.session.scalar(query.order_by(ImportEntryRow.number).limit(1))
        return None if row is None else _entry(row)

    def list(
        self,
        operation_id: OperationId,
        *,
        states: Collection[EntryState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[Entry]:
        """List entries in the order of their discovery."""
        query = select(ImportEntryRow).where(ImportEntryRow.operation_id == operation_id)
        if states:
            query = query.where(ImportEntryRow.state.in_(list(states)))
        if cursor is not None:
            query = query.where(ImportEntryRow.number > cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(ImportEntryRow.number).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_entry(row) for row in rows[:limit]], more)

    def remove_ended_before(self, moment: datetime) -> int:
        """Remove the entries of imports that ended before a time; returns their number."""
        ended = select(OperationRow.id).where(OperationRow.kind == OperationKind.IMPORT, OperationRow.ended_at < moment)
        gone = delete(ImportEntryRow).where(ImportEntryRow.operation_id.in_(ended)).returning(ImportEntryRow.number)
        return len(self.session.execute(gone, execution_options={"synchronize_session": False}).all())

    def keep_secrets(self, operation_id: OperationId, sealed: str) -> None:
        """Insert or replace the encrypted secrets of an operation."""
        upsert(self.session, OperationSecretRow, {"operation_id": operation_id, "sealed": sealed})

    def secrets(self, operation_id: OperationId) -> str | None:
        """Get the encrypted secrets of an operation."""
        row = self.session.get(OperationSecretRow, operation_id)
        return None if row is None else row.sealed

    def forget_secrets(self, operation_id: OperationId) -> None:
        """Delete the secrets of an ended operation; SQLite overwrites deleted rows only with secure_delete."""
        connection = self.session.connection()
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
        self.session.execute(delete(OperationSecretRow).where(OperationSecretRow.operation_id == operation_id))
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA secure_delete=OFF")


def _values(entry: Entry) -> Mapping[str, Any]:
    values = {name: getattr(entry, name) for name in Entry.__slots__}
    return values | {"namespace": encode_namespace(entry.namespace), "warnings": list(entry.warnings)}


def _entry(row: ImportEntryRow) -> Entry:
    values = {name: getattr(row, name) for name in Entry.__slots__}
    return Entry(
        **values
        | {
            "namespace": tuple(row.namespace.split(SEPARATOR)) if row.namespace else (),
            "kind": EntryKind(row.kind),
            "state": EntryState(row.state),
            "warnings": tuple(row.warnings),
        }
    )
