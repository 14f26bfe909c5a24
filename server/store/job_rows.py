"""The tables of background work: jobs and their optimizers, and the server's own operations."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row

ACTIVE_JOB = text("status IN ('pending', 'running', 'committing', 'unknown')")
SUPERSEDED_JOB = text("superseded")


class JobRow(Row):
    """A background job; the partial unique index allows one active job per subject.

    `superseded` marks a job with enough newer jobs of its kind on the table; the server removes it once it is old.
    """

    __tablename__ = "job"
    __table_args__ = (
        Index("uq_job_active", "subject_id", unique=True, sqlite_where=ACTIVE_JOB, postgresql_where=ACTIVE_JOB),
        Index("ix_job_status", "status", "group_name"),
        Index("ix_job_subject", "subject_id", "number"),
        Index("ix_job_kind", "subject_id", "kind", "number"),
        Index("ix_job_deadline", "group_name", "status", "requested", "deadline", "number"),
        Index("ix_job_leased", "group_name", "leased_at"),
        Index("ix_job_ended", "ended_at"),
        Index("ix_job_superseded", "ended_at", sqlite_where=SUPERSEDED_JOB, postgresql_where=SUPERSEDED_JOB),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    catalog: Mapped[str] = mapped_column(String(255))
    subject_id: Mapped[UUID]
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(String(512))
    kind: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(32))
    group_name: Mapped[str] = mapped_column(String(255))
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    deadline: Mapped[datetime]
    priority: Mapped[str] = mapped_column(String(8))
    is_long: Mapped[bool]
    predicted_seconds: Mapped[float]
    attempt: Mapped[int]
    token: Mapped[str | None] = mapped_column(String(64))
    owner: Mapped[str | None] = mapped_column(String(255))
    leased_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None]
    committed_by: Mapped[str | None] = mapped_column(String(64))
    committed_snapshot_id: Mapped[int | None]
    ended_at: Mapped[datetime | None]
    error: Mapped[str | None] = mapped_column(Text)
    params: Mapped[dict[str, Any]]
    progress: Mapped[dict[str, Any]]
    result: Mapped[dict[str, Any]]
    predicted: Mapped[dict[str, Any]]
    attempts: Mapped[list[dict[str, Any]]]
    bytes_rewritten: Mapped[int]
    bytes_freed: Mapped[int]
    requested: Mapped[bool]
    withdrawn: Mapped[bool]
    superseded: Mapped[bool] = mapped_column(default=False)


class BlockerRow(Row):
    """A blocker keeps jobs of some kinds from a table until a time; an empty list means all kinds."""

    __tablename__ = "blocker"
    __table_args__ = (Index("ix_blocker_relation", "relation_id"), Index("ix_blocker_until", "until"))
    id: Mapped[UUID] = mapped_column(primary_key=True)
    relation_id: Mapped[UUID]
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    until: Mapped[datetime]
    kinds: Mapped[list[str]]
    set_by: Mapped[str | None] = mapped_column(String(255))


class JobCommitRow(Row):
    """A commit of a job; the commits on one relation are numbered."""

    __tablename__ = "job_commit"
    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    token: Mapped[str] = mapped_column(String(64))
    snapshot_id: Mapped[int | None]
    digest: Mapped[str] = mapped_column(String(64))


class JobLogRow(Row):
    """A log line of a job's optimizer for people."""

    __tablename__ = "job_log"
    __table_args__ = (Index("ix_job_log_job", "job_id", "id"),)
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    job_id: Mapped[UUID]
    at: Mapped[datetime]
    line: Mapped[str] = mapped_column(Text)


class GroupRow(Row):
    """The settings of a group of optimizers."""

    __tablename__ = "optimizer_group"
    name: Mapped[str] = mapped_column(String(50), primary_key=True)
    description: Mapped[str] = mapped_column(Text)
    reserved_slots: Mapped[int]
    catalog_quota: Mapped[float]
    created_at: Mapped[datetime | None]


class OrphanBatchRow(Row):
    """Orphan files that a job removed: their number, and the location of the report that lists them."""

    __tablename__ = "orphan_batch"
    __table_args__ = (
        Index("ix_orphan_batch_relation", "relation_id", "state"),
        Index("ix_orphan_batch_job", "job_id", "number"),
        Index("ix_orphan_batch_deleted_by", "deleted_by", "number"),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    catalog: Mapped[str] = mapped_column(String(255))
    relation_id: Mapped[UUID]
    job_id: Mapped[UUID]
    state: Mapped[str] = mapped_column(String(32))
    report: Mapped[str] = mapped_column(Text)
    files: Mapped[int]
    bytes: Mapped[int]
    taken_at: Mapped[datetime]
    kept: Mapped[list[str]]
    deleted_by: Mapped[UUID | None]
    deleted_at: Mapped[datetime | None]


class GroupLaunchRow(Row):
    """The launch settings of a group."""

    __tablename__ = "group_launch"
    group_name: Mapped[str] = mapped_column(String(50), primary_key=True)
    settings: Mapped[dict[str, Any]]
    changed_at: Mapped[datetime]


class LaunchRow(Row):
    """One start of an optimizer by a server, which may have failed."""

    __tablename__ = "launch"
    __table_args__ = (Index("ix_launch_status", "status"), Index("ix_launch_group", "group_name", "started_at"))
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    group_name: Mapped[str] = mapped_column(String(50))
    kind: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(32))
    started_at: Mapped[datetime]
    busy_at: Mapped[datetime]
    process: Mapped[dict[str, Any] | None]
    asked_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    reason: Mapped[str | None] = mapped_column(Text)


class OptimizerRow(Row):
    """A registered optimizer."""

    __tablename__ = "optimizer"
    id: Mapped[str] = mapped_column(String(255), primary_key=True)
    group_name: Mapped[str] = mapped_column(String(255))
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    version: Mapped[str] = mapped_column(String(64))
    registered_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    slots: Mapped[int]
    draining: Mapped[bool]
    stopping: Mapped[bool]
    reason: Mapped[str | None] = mapped_column(Text)
    launch: Mapped[str | None] = mapped_column(String(64))
    memory: Mapped[dict[str, Any]]
    facts: Mapped[dict[str, Any]]


class OperationRow(Row):
    """A long task of the server, with its journal."""

    __tablename__ = "operation"
    __table_args__ = (
        Index("ix_operation_status", "status", "catalog", "kind"),
        Index("ix_operation_target", "catalog", "target"),
        Index("ix_operation_batch", "batch", "number"),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    kind: Mapped[str] = mapped_column(String(32))
    catalog: Mapped[str] = mapped_column(String(255))
    target: Mapped[str] = mapped_column(String(1024))
    status: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    params: Mapped[dict[str, Any]]
    journal: Mapped[dict[str, Any]]
    phase: Mapped[str] = mapped_column(String(64))
    phase_at: Mapped[datetime | None]
    message: Mapped[str] = mapped_column(Text)
    done: Mapped[int]
    total: Mapped[int]
    unit: Mapped[str] = mapped_column(String(32))
    cancel_requested: Mapped[bool]
    error: Mapped[str | None] = mapped_column(Text)
    hint: Mapped[str | None] = mapped_column(Text)
    result: Mapped[dict[str, Any]]
    ended_at: Mapped[datetime | None]
    batch: Mapped[UUID | None]


class ImportEntryRow(Row):
    """One namespace, table or view of an import, and its result."""

    __tablename__ = "import_entry"
    __table_args__ = (
        Index("ix_import_entry_state", "operation_id", "state", "number"),
        Index("ix_import_entry_name", "name", postgresql_using="hash"),
        Index("ix_import_entry_location", "location", postgresql_using="hash"),
    )
    operation_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(32))
    namespace: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(32))
    metadata_location: Mapped[str | None] = mapped_column(Text)
    uuid: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    reason: Mapped[str | None] = mapped_column(Text)
    hint: Mapped[str | None] = mapped_column(Text)
    warnings: Mapped[list[str]]
    properties: Mapped[dict[str, str]]


class OperationSecretRow(Row):
    """The encrypted secrets of a running operation for another system; deleted at its end, and never shown."""

    __tablename__ = "operation_secret"
    operation_id: Mapped[UUID] = mapped_column(primary_key=True)
    sealed: Mapped[str] = mapped_column(Text)
