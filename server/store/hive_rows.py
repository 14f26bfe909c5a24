"""The tables for Hive: the index of Hive tables, and the baselines, links and events of linked tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row


class HiveTableRow(Row):
    """A table of a linked metastore as of the last listing; pages come from this table, never from the metastore."""

    __tablename__ = "hive_table"
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
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    link: Mapped[dict[str, Any]]
    out_of_sync: Mapped[bool]
    """Whether the link has drift, for the counts of databases."""
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


class StagedBaselinesRow(Row):
    """The plan that a sync or publish job's commit applies to the baselines, in the transaction of the commit."""

    __tablename__ = "hive_staged_baseline"
    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    staged: Mapped[bytes] = mapped_column(LargeBinary)
