"""The audit log in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, or_, select, update

from catalog.access.audit_log import AuditEntry, AuditFilter, Verdict
from catalog.access.privileges import PrincipalId
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.access_rows import AuditRow
from server.store.session import ReadSession

_COLUMNS = tuple(f.name for f in fields(AuditEntry) if f.name != "id")


@dataclass(frozen=True)
class SqlAudit:
    """See catalog.ports.access.Audit."""

    session: ReadSession

    def add(self, entries: Sequence[AuditEntry]) -> list[int]:
        """Their ids, in the same order."""
        rows = [AuditRow(**{name: getattr(entry, name) for name in _COLUMNS}) for entry in entries]
        self.session.add_all(rows)
        self.session.flush()
        return [row.id for row in rows]

    def ended(self, statuses: Mapping[int, int]) -> None:
        """Note how requests ended."""
        for entry_id, status in statuses.items():
            self.session.execute(update(AuditRow).where(AuditRow.id == entry_id).values(status=status))

    def list(self, audit_filter: AuditFilter, *, limit: int, cursor: str | None = None) -> Page[AuditEntry]:
        """Newest first."""
        query = _filtered(select(AuditRow), audit_filter)
        if cursor is not None:
            query = query.where(AuditRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(AuditRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_entry(row) for row in rows[:limit]], more)

    def remove_before(self, moment: datetime) -> int:
        """Delete older entries; return their number."""
        gone = self.session.execute(delete(AuditRow).where(AuditRow.at < moment).returning(AuditRow.id))
        return len(gone.all())


def _filtered(query: Select[AuditRow], audit_filter: AuditFilter) -> Select[AuditRow]:
    for name in ("principal", "catalog", "verdict", "changes"):
        value = getattr(audit_filter, name)
        if value is not None:
            query = query.where(getattr(AuditRow, name) == value)
    if audit_filter.notable:
        query = query.where(or_(AuditRow.changes, AuditRow.verdict != Verdict.ALLOWED))
    if audit_filter.target is not None:
        inside = func.substr(AuditRow.target, 1, len(audit_filter.target) + 1) == f"{audit_filter.target}."
        query = query.where(or_(AuditRow.target == audit_filter.target, inside))
    if audit_filter.since is not None:
        query = query.where(AuditRow.at >= audit_filter.since)
    if audit_filter.until is not None:
        query = query.where(AuditRow.at < audit_filter.until)
    return query


def _entry(row: AuditRow) -> AuditEntry:
    values: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    principal = None if row.principal_id is None else PrincipalId(row.principal_id)
    return AuditEntry(**{**values, "verdict": Verdict(row.verdict), "principal_id": principal}, id=row.id)
