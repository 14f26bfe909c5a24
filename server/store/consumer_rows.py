"""The table of consumers of changes."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import Row


class ConsumerRow(Row):
    """A reader of a keyed table's changes, and the version up to which it has them."""

    __tablename__ = "consumer"
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    version: Mapped[int]
    created_at: Mapped[datetime]
    moved_at: Mapped[datetime]
    kept_until: Mapped[datetime]
    owner: Mapped[str | None] = mapped_column(String(255))
