"""The tables of the catalog. The module with a table's queries converts its rows to domain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

BigKey = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows automatically only in a column of type INTEGER."""


TO_PLAN = text("plan_after IS NOT NULL")
VIEWS = text("kind = 'view'")
TO_COUNT = text("wanted_at IS NOT NULL")


class UtcDateTime(TypeDecorator[datetime]):
    """Times in UTC: PostgreSQL stores the zone, SQLite does not."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; ValueError for a time without a zone, which is ambiguous."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Add the zone UTC where the database has none."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Row(DeclarativeBase):
    """The base of all tables: names of constraints, and column types for Python types."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        },
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        dict[str, str]: JSON,
        list[str]: JSON,
        list[dict[str, Any]]: JSON,
        list[dict[str, str]]: JSON,
        int: BigInteger,
    }


class CatalogRow(Row):
    """A named warehouse; `normalized` is unique (catalog.names.normalize_name)."""

    __tablename__ = "catalog"
    __table_args__ = (UniqueConstraint("normalized"),)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    normalized: Mapped[str] = mapped_column(String(255))
    warehouse: Mapped[str] = mapped_column(Text)
    metastore_uri: Mapped[str | None] = mapped_column(Text)
    properties: Mapped[dict[str, str]]
    created_at: Mapped[datetime]
    metastore_down_since: Mapped[datetime | None]
    metastore_down_reason: Mapped[str | None] = mapped_column(Text)


class NamespaceRow(Row):
    """A namespace; `path` is its parts joined by 0x1F, `folded` is unique in its catalog (Catalog.unique)."""

    __tablename__ = "namespace"
    __table_args__ = (UniqueConstraint("catalog", "folded"),)
    catalog: Mapped[str] = mapped_column(String(255), primary_key=True)
    path: Mapped[str] = mapped_column(String(1024), primary_key=True)
    folded: Mapped[str] = mapped_column(String(1024))
    properties: Mapped[dict[str, str]]


class RelationRow(Row):
    """A table, view or keyed table and the pointer to its metadata; `folded` as in NamespaceRow."""

    __tablename__ = "relation"
    __table_args__ = (
        UniqueConstraint("catalog", "namespace", "name"),
        UniqueConstraint("catalog", "namespace", "folded"),
        Index("ix_relation_owner", "owner_id"),
        Index("ix_relation_hive", "catalog", "hive_name"),
        # A location can exceed the limit of PostgreSQL's ordered indexes.
        Index("ix_relation_location", "location", postgresql_using="hash"),
        Index("ix_relation_view", "id", sqlite_where=VIEWS, postgresql_where=VIEWS),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    catalog: Mapped[str] = mapped_column(String(255))
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(String(512))
    folded: Mapped[str] = mapped_column(String(512))
    kind: Mapped[str] = mapped_column(String(32))
    owner_id: Mapped[UUID | None]
    location: Mapped[str] = mapped_column(Text)
    metadata_location: Mapped[str | None] = mapped_column(Text)
    version: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    hive_name: Mapped[str | None] = mapped_column(String(512))
    former_locations: Mapped[list[str]]


class TableStatsRow(Row):
    """Counters of one table, which each commit updates."""

    __tablename__ = "table_stats"
    __table_args__ = (Index("ix_table_stats_plan_after", "plan_after", sqlite_where=TO_PLAN, postgresql_where=TO_PLAN),)
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    snapshot_id: Mapped[int | None]
    sequence_number: Mapped[int]
    schema_id: Mapped[int]
    spec_id: Mapped[int]
    epoch: Mapped[int]
    snapshots: Mapped[int]
    records: Mapped[int]
    data_files: Mapped[int]
    delete_files: Mapped[int]
    bytes: Mapped[int]
    position_deletes: Mapped[int]
    equality_deletes: Mapped[int]
    manifests: Mapped[int | None]
    format_version: Mapped[int]
    last_commit_at: Mapped[datetime | None]
    last_operation: Mapped[str | None] = mapped_column(String(32))
    oldest_superseded_at: Mapped[datetime | None]
    properties: Mapped[dict[str, str]]
    plan_after: Mapped[datetime | None]
    plan_requests: Mapped[int]


class FileLayoutRow(Row):
    """The file layout of a table at the last count, and whether the server must count again."""

    __tablename__ = "file_layout"
    __table_args__ = (Index("ix_file_layout_wanted_at", "wanted_at", sqlite_where=TO_COUNT, postgresql_where=TO_COUNT),)
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    layout: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    counted_at: Mapped[datetime | None]
    wanted_at: Mapped[datetime | None]


class TableStatusRow(Row):
    """The planner's last assessment of a table, with an index for each order of the list of tables."""

    __tablename__ = "table_status"
    __table_args__ = (
        *(
            Index(f"ix_table_status_{column}", "catalog", column, "relation_id")
            for column in ("health", "bytes", "data_files", "pending_rows", "last_commit_at")
        ),
        Index("ix_table_status_worst", "health", "relation_id"),
        Index("ix_table_status_looked_at", "looked_at"),
    )
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    catalog: Mapped[str] = mapped_column(String(255))
    looked_at: Mapped[datetime]
    due: Mapped[bool]
    kind: Mapped[str | None] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text)
    next_at: Mapped[datetime | None]
    health: Mapped[int]
    parts: Mapped[dict[str, Any]]
    rows: Mapped[int]
    bytes: Mapped[int]
    data_files: Mapped[int]
    small_files: Mapped[int]
    pending_rows: Mapped[int]
    last_commit_at: Mapped[datetime]


class KeyedTableRow(Row):
    """A keyed table's key, stores, watermark and pending counts."""

    __tablename__ = "keyed_table"
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    primary_key: Mapped[list[str]]
    sequence_field: Mapped[str | None] = mapped_column(String(512))
    scope: Mapped[str] = mapped_column(String(32))
    is_insert_only: Mapped[bool]
    base_id: Mapped[UUID]
    change_id: Mapped[UUID]
    watermark: Mapped[int]
    change_sequence: Mapped[int]
    pending_rows: Mapped[int]
    pending_bytes: Mapped[int]
    pending_commits: Mapped[int]
    pending_since: Mapped[datetime | None]
    version: Mapped[int]


class VersionRow(Row):
    """A pair of snapshots, one per store, that readers of a keyed table can read together."""

    __tablename__ = "version"
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    base_snapshot_id: Mapped[int | None]
    change_snapshot_id: Mapped[int | None]
    committed_at: Mapped[datetime]


class CommitEventRow(Row):
    """One applied commit. A writer's batch is unique per relation, so a repeated delivery has no effect."""

    __tablename__ = "commit_event"
    __table_args__ = (
        UniqueConstraint("relation_id", "writer_id", "batch_id"),
        Index("ix_commit_event_sequence", "relation_id", "sequence_number"),
        Index("ix_commit_event_snapshot", "snapshot_id", "relation_id"),
        Index("ix_commit_event_history", "relation_id", "id"),
    )
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    relation_id: Mapped[UUID]
    catalog: Mapped[str] = mapped_column(String(255), index=True)
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(String(512))
    committed_at: Mapped[datetime]
    snapshot_id: Mapped[int | None]
    parent_id: Mapped[int | None]
    sequence_number: Mapped[int | None]
    operation: Mapped[str] = mapped_column(String(32))
    added_rows: Mapped[int]
    added_bytes: Mapped[int]
    added_files: Mapped[int]
    removed_rows: Mapped[int]
    removed_files: Mapped[int]
    writer_id: Mapped[str | None] = mapped_column(String(512))
    batch_id: Mapped[str | None] = mapped_column(String(512))
    job_id: Mapped[str | None] = mapped_column(String(64))
    engine: Mapped[str | None] = mapped_column(String(255))
    principal: Mapped[str | None] = mapped_column(String(255))
    summary: Mapped[dict[str, str]]
    changes: Mapped[list[dict[str, str]]]
    topics: Mapped[str] = mapped_column(String(128))
    schema_id: Mapped[int | None]
    head_id: Mapped[int | None]


class PolicyRow(Row):
    """Properties of a catalog (with namespace '') or namespace, which its tables inherit."""

    __tablename__ = "policy"
    catalog: Mapped[str] = mapped_column(String(255), primary_key=True)
    namespace: Mapped[str] = mapped_column(String(1024), primary_key=True)
    properties: Mapped[dict[str, str]]


class IdempotencyKeyRow(Row):
    """The answer to a request with an idempotency key."""

    __tablename__ = "idempotency_key"
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    status: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(index=True)


class LeaderRow(Row):
    """The server that runs the background work, until when; `term` increases when another server takes over."""

    __tablename__ = "leader"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    holder: Mapped[str] = mapped_column(String(255))
    until: Mapped[datetime]
    term: Mapped[int]


class MetricsReportRow(Row):
    """An engine's report of a scan or commit."""

    __tablename__ = "metrics_report"
    __table_args__ = (Index("ix_metrics_report_relation", "relation_id", "id"),)
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    relation_id: Mapped[UUID]
    catalog: Mapped[str] = mapped_column(String(255))
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(String(512))
    kind: Mapped[str] = mapped_column(String(32))
    at: Mapped[datetime] = mapped_column(index=True)
    engine: Mapped[str | None] = mapped_column(String(255))
    principal: Mapped[str | None] = mapped_column(String(255))
    report: Mapped[dict[str, Any]]


class ScanPlanRow(Row):
    """A scan plan that clients fetch task by task; a task is a list of (manifest, start, stop)."""

    __tablename__ = "scan_plan"
    __table_args__ = (Index("ix_scan_plan_expires", "expires_at"),)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    table_uuid: Mapped[str] = mapped_column(String(36))
    metadata_location: Mapped[str] = mapped_column(Text)
    request: Mapped[dict[str, Any]]
    schema_id: Mapped[int]
    tasks: Mapped[list[list[tuple[int, int, int | None]]]] = mapped_column(JSON)
    expires_at: Mapped[datetime]
    cancelled: Mapped[bool]


class ImageBuildRow(Row):
    """A build of an image. It stays, without its table, until its files are deleted."""

    __tablename__ = "image_build"
    __table_args__ = (
        Index("ix_image_build_relation", "relation_id", "started_at"),
        Index("ix_image_build_keep_until", "keep_until"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    relation_id: Mapped[UUID]
    digest: Mapped[str] = mapped_column(String(64))
    snapshot_id: Mapped[int]
    name: Mapped[str] = mapped_column(String(64))
    directory: Mapped[str] = mapped_column(Text)
    metadata_location: Mapped[str] = mapped_column(Text)
    base_snapshot_id: Mapped[int | None]
    change_snapshot_id: Mapped[int | None]
    change_sequence: Mapped[int]
    base_metadata: Mapped[str] = mapped_column(Text)
    format_version: Mapped[int]
    hides: Mapped[str | None] = mapped_column(Text)
    layers: Mapped[list[str]]
    started_at: Mapped[datetime]
    keep_until: Mapped[datetime]
    state: Mapped[str] = mapped_column(String(32))


class DroppedRow(Row):
    """A dropped table, view or namespace during its retention, or while a purge deletes its files."""

    __tablename__ = "dropped"
    __table_args__ = (
        Index("ix_dropped_catalog", "catalog", "number"),
        Index("ix_dropped_keep_until", "state", "keep_until"),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    catalog: Mapped[str] = mapped_column(String(255))
    path: Mapped[str] = mapped_column(String(1537))
    kind: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(32))
    dropped_at: Mapped[datetime]
    keep_until: Mapped[datetime]
    purge: Mapped[bool]
    parent_id: Mapped[UUID | None] = mapped_column(index=True)
    namespaces: Mapped[dict[str, Any]]
    progress: Mapped[dict[str, Any]]
    error: Mapped[str | None] = mapped_column(Text)


class DroppedRelationRow(Row):
    """A relation's row at the time of the drop."""

    __tablename__ = "dropped_relation"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    dropped_id: Mapped[UUID] = mapped_column(index=True)
    location: Mapped[str] = mapped_column(Text)
    metadata_location: Mapped[str | None] = mapped_column(Text)
    relation: Mapped[dict[str, Any]]
