"""The tables of pipelines: their versions, tables and checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row

ACTIVE = text("status = 'active'")
REPLAYS = text("since IS NOT NULL")


class PipelineRow(Row):
    """A pipeline. The planner looks for runs to start from `plan_after` on; None is never, without triggers."""

    __tablename__ = "pipeline"
    __table_args__ = (Index("ix_pipeline_plan_after", "plan_after"),)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    catalog: Mapped[str] = mapped_column(String(255))
    version: Mapped[int]
    owner: Mapped[str | None] = mapped_column(String(255))
    owner_id: Mapped[UUID | None]
    created_at: Mapped[datetime]
    changed_at: Mapped[datetime]
    plan_after: Mapped[datetime | None]


class PipelineVersionRow(Row):
    """A version of a pipeline, as its author has put it."""

    __tablename__ = "pipeline_version"
    pipeline_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    created_at: Mapped[datetime]
    author: Mapped[str | None] = mapped_column(String(255))
    files: Mapped[list[dict[str, Any]]]
    tables: Mapped[list[dict[str, Any]]]
    deterministic: Mapped[list[str]]


class PipelineTableRow(Row):
    """A table of a pipeline's newest version. `spelled` is the digest of its name in one spelling."""

    __tablename__ = "pipeline_table"
    __table_args__ = (
        UniqueConstraint("catalog", "spelled"),
        Index("ix_pipeline_table_pipeline", "pipeline_id"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    pipeline_id: Mapped[UUID]
    catalog: Mapped[str] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(Text)
    spelled: Mapped[str] = mapped_column(String(64))
    inputs: Mapped[list[str]]
    definition: Mapped[dict[str, Any]]


class PipelineNameRow(Row):
    """A table that a pipeline's table reads, or the table itself, by the digest of its name in one spelling."""

    __tablename__ = "pipeline_name"
    __table_args__ = (Index("ix_pipeline_name_spelled", "spelled", "catalog"),)
    table_id: Mapped[UUID] = mapped_column(primary_key=True)
    spelled: Mapped[str] = mapped_column(String(64), primary_key=True)
    pipeline_id: Mapped[UUID]
    catalog: Mapped[str] = mapped_column(String(255))


class PipelineCheckpointRow(Row):
    """The pins of a run. While the position of the table's writer is its id, they are the checkpoint of the table."""

    __tablename__ = "pipeline_checkpoint"
    __table_args__ = (
        Index("ix_pipeline_checkpoint_id", "id"),
        Index("ix_pipeline_checkpoint_table", "table_id", "number"),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64))
    table_id: Mapped[UUID]
    job_id: Mapped[UUID]
    store_id: Mapped[UUID]
    writer: Mapped[str] = mapped_column(String(255))
    fingerprint: Mapped[str] = mapped_column(String(64))
    pinned_at: Mapped[datetime]
    kept_until: Mapped[datetime]
    exact_at: Mapped[str | None] = mapped_column(String(100))
    pins: Mapped[list[dict[str, Any]]]


class PipelinePinRow(Row):
    """The state of an input that a checkpoint names, for expiry."""

    __tablename__ = "pipeline_pin"
    __table_args__ = (Index("ix_pipeline_pin_relation", "relation_id"), Index("ix_pipeline_pin_table", "table_id"))
    checkpoint_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    table_id: Mapped[UUID]
    version: Mapped[str] = mapped_column(String(32))


class PipelineBackfillRow(Row):
    """A backfill of a pipeline's table, with its chunks. `number` is the order of requests."""

    __tablename__ = "pipeline_backfill"
    __table_args__ = (
        Index("ix_pipeline_backfill_id", "id", unique=True),
        Index("ix_pipeline_backfill_table", "table_id", "number"),
        Index("ix_pipeline_backfill_active", "table_id", sqlite_where=ACTIVE, postgresql_where=ACTIVE),
        Index("ix_pipeline_backfill_since", "since", sqlite_where=REPLAYS, postgresql_where=REPLAYS),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID]
    table_id: Mapped[UUID]
    where: Mapped[str | None] = mapped_column(Text)
    since: Mapped[str | None] = mapped_column(String(64))
    status: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(255))
    ended_at: Mapped[datetime | None]
    error: Mapped[str | None] = mapped_column(Text)
    chunk_seconds: Mapped[int]
    last_chunks: Mapped[int]
    last_seconds: Mapped[float | None]
    finished_by: Mapped[int | None]
    beside: Mapped[int | None]
    active_since: Mapped[datetime | None]
    waits_for: Mapped[str | None] = mapped_column(String(64))
    chunks: Mapped[list[dict[str, Any]]]


class PipelineHeldRow(Row):
    """The part of a held run's commit that is about one table."""

    __tablename__ = "pipeline_held"
    __table_args__ = (
        Index("ix_pipeline_held_store", "store_id"),
        Index("ix_pipeline_held_quarantine", "quarantine_id"),
    )
    table_id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID]
    store_id: Mapped[UUID]
    held_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    change: Mapped[dict[str, Any] | None]
    move: Mapped[dict[str, Any] | None]
    sample: Mapped[dict[str, Any] | None]
    quarantine_id: Mapped[UUID | None]
    quarantined: Mapped[dict[str, Any] | None]
