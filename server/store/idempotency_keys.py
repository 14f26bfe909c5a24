"""Idempotency keys with their stored responses in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete

from catalog.errors import Conflict
from catalog.ports.idempotency import StoredResponse
from server.store.rows import IdempotencyKeyRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken


@dataclass(frozen=True)
class SqlIdempotencyKeys:
    """See catalog.ports.idempotency.IdempotencyKeys."""

    session: ReadSession

    def find(self, key: str) -> StoredResponse | None:
        """Find the stored response of a key."""
        row = self.session.get(IdempotencyKeyRow, key)
        if row is None:
            return None
        return StoredResponse(
            key=row.key, fingerprint=row.fingerprint, status=row.status, body=row.body, created_at=row.created_at
        )

    def add(self, answer: StoredResponse) -> None:
        """Store a response; Conflict when a concurrent request has the same key, and a retry finds its response."""
        values = {name: getattr(answer, name) for name in StoredResponse.__slots__}
        if not insert_unless_taken(self.session, IdempotencyKeyRow, values):
            raise Conflict(f"a request with idempotency key {answer.key} is being applied")

    def remove_before(self, moment: datetime) -> int:
        """Remove old responses; returns their number."""
        gone = self.session.execute(
            delete(IdempotencyKeyRow).where(IdempotencyKeyRow.created_at < moment).returning(IdempotencyKeyRow.key)
        )
        return len(gone.all())
