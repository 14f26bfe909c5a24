"""Tables of a metastore as Firn's own index keeps them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
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
class TableFacts:
    """The size of a Hive table, its last write and its writer, by Hive's statistics or by a check; None if unknown."""

    partitions: int | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    last_write: int | None = None
    """Seconds since 1970 of the last change that Hive noticed, of the table or of a partition."""
    writer: str | None = None
    """The user of the last ALTER, or else the owner."""

    def or_else(self, other: TableFacts) -> TableFacts:
        """These facts; where one is unknown, that of `other`."""
        return replace(other, **{name: value for name, value in asdict(self).items() if value is not None})


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
    facts: TableFacts = TableFacts()
    checked: tuple[IndexedBlocker, ...] = ()
    """The further blockers that the last check found, in partitions and files."""
    checked_at: datetime | None = None
    failure: str | None = None
    """Why the last upgrade failed, until one succeeds or somebody alters the table."""

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"

    @property
    def all_blockers(self) -> tuple[IndexedBlocker, ...]:
        """The blockers that the listing shows, then the further ones of the last check."""
        shown = {blocker.code for blocker in self.blockers}
        return (*self.blockers, *(blocker for blocker in self.checked if blocker.code not in shown))

    def with_findings_of(self, before: IndexedTable) -> IndexedTable:
        """The table with the findings of its last check and upgrade, unless somebody altered the table since."""
        if (before.location, before.ddl_time, before.format) != (self.location, self.ddl_time, self.format):
            return self
        if before.checked_at is None:
            return replace(self, failure=before.failure)
        facts = before.facts.or_else(self.facts)
        return replace(self, facts=facts, checked=before.checked, checked_at=before.checked_at, failure=before.failure)


class HiveTableOrder(StrEnum):
    """The order of a list of Hive tables: numbers from the largest, texts from the smallest; unknown values last."""

    NAME = "name"
    BYTES = "bytes"
    ROWS = "rows"
    PARTITIONS = "partitions"
    LAST_WRITE = "last_write"
    FORMAT = "format"
    WRITER = "writer"
    BLOCKER = "blocker"

    @property
    def is_number(self) -> bool:
        """Whether the list starts with the largest value."""
        numbers = (HiveTableOrder.BYTES, HiveTableOrder.ROWS, HiveTableOrder.PARTITIONS, HiveTableOrder.LAST_WRITE)
        return self in numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTableFilter:
    """Which Hive tables to list, count or upgrade. A bound of an unknown number matches no table."""

    database: str | None = None
    search: str | None = None
    """A part of DATABASE.TABLE."""
    state: HiveTableState | None = None
    out_of_sync: bool | None = None
    """True: only upgraded tables that differ from Hive; False: only other tables."""
    format: str | None = None
    blocker: str | None = None
    """The code of the first blocker."""
    writer: str | None = None
    partitioned: bool | None = None
    checked: bool | None = None
    failed: bool | None = None
    """True: only tables whose last upgrade failed; False: only other tables."""
    min_bytes: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_rows: int | None = None
    min_partitions: int | None = None
    max_partitions: int | None = None
    written_since: datetime | None = None
    written_before: datetime | None = None


EVERY_TABLE = HiveTableFilter()


class MigrationState(StrEnum):
    """Where a Hive table stands on the way to Firn; each table has one state."""

    UPGRADED = "upgraded"
    UPGRADING = "upgrading"
    FAILED = "failed"
    BLOCKED = "blocked"
    ELIGIBLE = "eligible"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationCount:
    """The tables of one database in one state with one first blocker, and their known sizes."""

    database: str
    state: MigrationState
    blocker: str
    """Empty without a blocker."""
    tables: int
    bytes: int
    rows: int
    unknown: int
    """The number of tables whose size is unknown."""
    checked: int
    published: int
