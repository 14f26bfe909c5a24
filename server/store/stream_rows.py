"""The tables of streams: writers with positions, connections to Kafka, and streams with their logs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row


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
    registry_url: Mapped[str | None] = mapped_column(Text)
    registry_username: Mapped[str | None] = mapped_column(String(255))
    sealed_registry_password: Mapped[str | None] = mapped_column(Text)


class StreamRow(Row):
    """A stream of a table, with its lease and the last measure of its lag. `token` is the lease's secret."""

    __tablename__ = "stream"
    __table_args__ = (
        Index("uq_stream_relation", "relation_id", "kind", unique=True),
        Index("ix_stream_status", "status", "group_name", "retry_at"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    catalog: Mapped[str] = mapped_column(String(255))
    relation_id: Mapped[UUID]
    kind: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(32))
    group_name: Mapped[str] = mapped_column(String(255))
    created_at: Mapped[datetime]
    changed_at: Mapped[datetime]
    retry_at: Mapped[datetime]
    current_at: Mapped[datetime]
    reason: Mapped[str | None] = mapped_column(Text)
    remedy: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int]
    failures: Mapped[int]
    token: Mapped[str | None] = mapped_column(String(64))
    owner: Mapped[str | None] = mapped_column(String(255))
    leased_table: Mapped[str | None] = mapped_column(Text)
    leased_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None]
    lag_rows: Mapped[int | None]
    rows_per_second: Mapped[float | None]
    measured_at: Mapped[datetime | None]
    attempts: Mapped[list[dict[str, Any]]]


class StreamLogRow(Row):
    """A line of a stream's log for people."""

    __tablename__ = "stream_log"
    __table_args__ = (Index("ix_stream_log_stream", "stream_id", "id"),)
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    stream_id: Mapped[UUID]
    at: Mapped[datetime]
    line: Mapped[str] = mapped_column(Text)
