"""The tables for Hive: the index of Hive tables, and the baselines, links and events of linked tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, LargeBinary, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row

FAILED = text("failure IS NOT NULL")
_ORDERED = ("bytes", "rows", "partitions", "last_write", "format", "writer", "blocker")


class HiveTableRow(Row):
    """A table of a linked metastore as of the last listing; pages come from this table, never from the metastore."""

    __tablename__ = "hive_table"
    __table_args__ = (
        # With database and name, an order needs no sort, and a filter by a part of the name reads no row.
        *(Index(f"ix_hive_table_{name}", "catalog", name, "database", "name") for name in _ORDERED),
        Index("ix_hive_table_failed", "catalog", "database", "name", sqlite_where=FAILED, postgresql_where=FAILED),
    )
    catalog: Mapped[str] = mapped_column(String(255), primary_key=True)
    database: Mapped[str] = mapped_column(String(255), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    format: Mapped[str] = mapped_column(String(64))
    location: Mapped[str] = mapped_column(Text)
    columns: Mapped[int]
    partition_columns: Mapped[list[str]]
    ddl_time: Mapped[int | None]
    blockers: Mapped[list[dict[str, Any]]]
    blocked: Mapped[bool]
    """Whether there are blockers, for the counts of databases."""
    seen_at: Mapped[datetime]
    partitions: Mapped[int]
    """This and the other numbers are -1 if unknown, so that one index serves the order."""
    files: Mapped[int]
    bytes: Mapped[int]
    rows: Mapped[int]
    last_write: Mapped[int]
    writer: Mapped[str] = mapped_column(String(255))
    blocker: Mapped[str] = mapped_column(String(64))
    """The code of the first blocker, or empty."""
    checked: Mapped[list[dict[str, Any]]]
    checked_at: Mapped[datetime | None]
    failure: Mapped[str | None] = mapped_column(Text)


class PartitionBaselineRow(Row):
    """The baseline of one partition of a linked table (docs/protocols.md#hive-sync-and-publish).

    An unpartitioned table has one row with the partition ''.
    """

    __tablename__ = "hive_baseline"
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    partition: Mapped[str] = mapped_column(String(2048), primary_key=True)
    location: Mapped[str] = mapped_column(Text)
    baseline: Mapped[bytes] = mapped_column(LargeBinary)


class HiveLinkRow(Row):
    """The state of a linked table after its last sync and publish."""

    __tablename__ = "hive_link"
    __table_args__ = (
        Index(
            "ix_hive_link_out_of_sync",
            "relation_id",
            sqlite_where=text("out_of_sync = 1"),
            postgresql_where=text("out_of_sync"),
        ),
    )
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    link: Mapped[dict[str, Any]]
    out_of_sync: Mapped[bool]
    """Whether the link has drift, for the counts of databases."""
    published: Mapped[bool]
    """Whether the table was ever published, for the counts of a migration."""
    synced_at: Mapped[datetime]
    given_back_by: Mapped[UUID | None]


class HiveEventRow(Row):
    """The effect of one sync or publish on one partition of a linked table; only the newest of a table are kept."""

    __tablename__ = "hive_event"
    __table_args__ = (Index("ix_hive_event_relation", "relation_id", "id"),)
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    relation_id: Mapped[UUID]
    kind: Mapped[str] = mapped_column(String(32))
    partition: Mapped[str | None] = mapped_column(String(2048))
    partitions: Mapped[int]
    files: Mapped[int]
    rows: Mapped[int | None] = mapped_column(BigInteger)
    snapshot_id: Mapped[int | None] = mapped_column(BigInteger)
    at: Mapped[datetime]


class HiveWaveRow(Row):
    """A wave: the upgrades or checks of the Hive tables that one filter or list chose, which are a batch."""

    __tablename__ = "hive_wave"
    __table_args__ = (Index("ix_hive_wave_catalog", "catalog", "number"),)
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    batch: Mapped[UUID] = mapped_column(unique=True)
    catalog: Mapped[str] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(32))
    selection: Mapped[dict[str, Any]]
    tables: Mapped[int]
    stop_after: Mapped[int | None]
    failures_allowed: Mapped[int | None]
    """The wave stops at this number of failures; a resume raises it by `stop_after`."""
    stopped: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]


class StagedBaselinesRow(Row):
    """The plan that a sync or publish job's commit applies to the baselines, in the transaction of the commit."""

    __tablename__ = "hive_staged_baseline"
    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    staged: Mapped[bytes] = mapped_column(LargeBinary)
