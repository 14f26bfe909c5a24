"""The tables of streams: writers with positions, and connections to Kafka."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import Row


class WriterRow(Row):
    """A registered writer of a table or change store, and the position that it has reached in its source."""

    __tablename__ = "writer"
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    epoch: Mapped[int]
    position: Mapped[str] = mapped_column(Text)
    registered_at: Mapped[datetime]
    registered_by: Mapped[str | None] = mapped_column(String(255))
    committed_at: Mapped[datetime | None]
    snapshot_id: Mapped[int | None]
    fenced_at: Mapped[datetime | None]


class ConnectionRow(Row):
    """A connection to Kafka. The key of its password is not in the database."""

    __tablename__ = "connection"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    brokers: Mapped[list[str]]
    security: Mapped[str] = mapped_column(String(32))
    mechanism: Mapped[str | None] = mapped_column(String(32))
    username: Mapped[str | None] = mapped_column(String(255))
    ca: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime | None]
    created_by: Mapped[str | None] = mapped_column(String(255))
    sealed_password: Mapped[str | None] = mapped_column(Text)
