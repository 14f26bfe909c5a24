"""The tables of queries, of the parts of their results, and of saved queries."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import Row


class QueryRow(Row):
    """A query of a person."""

    __tablename__ = "query"
    __table_args__ = (
        Index("ix_query_owner", "owner", "created_at"),
        Index("ix_query_created_at", "created_at"),
        Index("ix_query_state", "state", "seen_at"),
        Index("ix_query_result_until", "result_until"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    owner: Mapped[UUID | None]
    statement: Mapped[str] = mapped_column(Text)
    catalog: Mapped[str] = mapped_column(String(255))
    namespace: Mapped[str] = mapped_column(String(1024))
    explain: Mapped[bool]
    tables: Mapped[list[dict[str, Any]]]
    state: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    progress: Mapped[float | None]
    columns: Mapped[list[dict[str, Any]]]
    rows: Mapped[int]
    truncated: Mapped[bool]
    message: Mapped[str | None] = mapped_column(Text)
    hint: Mapped[str | None] = mapped_column(Text)
    notes: Mapped[list[str]]
    result_until: Mapped[datetime | None]
    engine: Mapped[str] = mapped_column(String(32), server_default="instant")
    spark_request: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    lease: Mapped[str | None] = mapped_column(String(64))
    optimizer: Mapped[str | None] = mapped_column(String(255))


class QueryPartRow(Row):
    """A part of a result: a page of rows, or the whole as a file."""

    __tablename__ = "query_part"
    query_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class SavedQueryRow(Row):
    """A statement that somebody keeps."""

    __tablename__ = "saved_query"
    __table_args__ = (Index("ix_saved_query_owner", "owner"), Index("ix_saved_query_shared", "shared"))
    id: Mapped[UUID] = mapped_column(primary_key=True)
    owner: Mapped[UUID | None]
    owner_name: Mapped[str | None] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(String(255))
    statement: Mapped[str] = mapped_column(Text)
    engine: Mapped[str] = mapped_column(String(32), server_default="instant")
    catalog: Mapped[str] = mapped_column(String(255))
    namespace: Mapped[str] = mapped_column(String(1024))
    shared: Mapped[bool]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
