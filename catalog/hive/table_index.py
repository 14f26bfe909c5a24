"""Tables of a metastore as Firn's own index keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catalog.names import CatalogName


class HiveTableState(StrEnum):
    """The state of a Hive table in Firn."""

    HIVE = "hive"
    BLOCKED = "blocked"
    UPGRADING = "upgrading"
    UPGRADED = "upgraded"
    DOWNGRADING = "downgrading"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCounts:
    """A database of a metastore, and how many of its tables stand where."""

    name: str
    tables: int
    upgraded: int
    blocked: int
    """Tables that are not upgraded and that an upgrade refuses."""
    out_of_sync: int
    """Upgraded tables that differ from Hive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSummary:
    """The summary of a linked table in lists."""

    drift: str | None
    drift_kind: str | None
    """A `DriftKind`."""
    drift_since: str | None
    likely_author: str | None
    """The probable author of the drift, for people."""
    published_at: str | None
    synced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBlocker:
    """Why a table cannot be upgraded as it is, and what to do."""

    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTable:
    """One table of a metastore as the last listing saw it."""

    catalog: CatalogName
    database: str
    name: str
    format: str
    location: str
    columns: int
    partition_columns: tuple[str, ...]
    ddl_time: int | None
    blockers: tuple[IndexedBlocker, ...]
    seen_at: datetime

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"
