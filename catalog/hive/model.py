"""Tables, partitions and columns of a Hive Metastore, as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from catalog.files.data_file import FileFormat
from catalog.hive.formats import REGISTERED, HiveFormat, detect_format

PROVIDER = "spark.sql.sources.provider"
"""Table parameter by which Spark marks tables of its own: their real format, whatever the storage descriptor says."""

WALL_CLOCK = "timestamp_ntz"
"""The name of a `timestamp` type whose values are wall-clock times: in ORC files (decision 40)."""
_PROVIDED = {"parquet": FileFormat.PARQUET, "orc": FileFormat.ORC}
_WALL_CLOCK = re.compile(rf"(?<!`)\b{WALL_CLOCK}\b(?!`|\s*:)", re.IGNORECASE)
_TIMESTAMP = re.compile(r"(?<!`)\btimestamp\b(?!`|\s*:|\s+with\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveColumn:
    """A column as the metastore spells it; `type` is Hive's type string."""

    name: str
    type: str
    comment: str | None = None


def to_wall_clock_columns(columns: Iterable[HiveColumn]) -> tuple[HiveColumn, ...]:
    """Convert columns to ones whose timestamps, nested ones included, are wall-clock times."""
    return tuple(replace(column, type=_TIMESTAMP.sub(WALL_CLOCK, column.type)) for column in columns)


def to_stored_columns(columns: Iterable[HiveColumn]) -> tuple[HiveColumn, ...]:
    """Convert columns to the metastore's spelling, which has one name for wall-clock times and instants."""
    return tuple(replace(column, type=_WALL_CLOCK.sub("timestamp", column.type)) for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveStorage:
    """Where rows lie and who reads them (Hive's storage descriptor)."""

    location: str
    input_format: str = ""
    output_format: str = ""
    serde: str = ""
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[HiveColumn, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    buckets: int = -1

    @property
    def format(self) -> HiveFormat:
        return detect_format(self.serde, self.input_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable:
    """A table of the metastore."""

    database: str
    name: str
    type: str  # MANAGED_TABLE, EXTERNAL_TABLE, VIRTUAL_VIEW, MATERIALIZED_VIEW, INDEX_TABLE
    storage: HiveStorage
    partition_columns: tuple[HiveColumn, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    view_text: str = ""
    """The query of a view, with all names qualified where the metastore has it so."""
    created: int | None = None
    """The time of its creation in seconds since 1970. A rename keeps it; a new table of the same name has another."""

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def columns(self) -> tuple[HiveColumn, ...]:
        """The columns in the files; partition columns are not among them."""
        if self.file_format is not FileFormat.ORC:
            return self.storage.columns
        return to_wall_clock_columns(self.storage.columns)

    @property
    def provider(self) -> str:
        """The format that Spark keeps a table of its own in; empty for a table of Hive's."""
        provider = self.parameters.get(PROVIDER, "").lower()
        return "" if provider == "hive" else provider

    @property
    def file_format(self) -> FileFormat | None:
        """The format of new files, and of those of a table without partitions; None for one that is not registered."""
        return self.format_of(self.storage)

    def format_of(self, storage: HiveStorage) -> FileFormat | None:
        """The format of files under a storage descriptor, the table's own or a partition's.

        Spark reads all partitions of its own tables by the table's format, whatever the descriptors say.
        """
        return _PROVIDED.get(self.provider) if self.provider else REGISTERED.get(storage.format)

    @property
    def has_timestamps(self) -> bool:
        """Whether columns in its files hold timestamps, nested ones included."""
        return any(_TIMESTAMP.search(column.type) for column in self.storage.columns)

    @property
    def location(self) -> str:
        """Where the rows lie.  Spark keeps the real place of its own tables in a parameter of the serializer."""
        own = self.storage.serde_parameters.get("path") if PROVIDER in self.parameters else None
        return own or self.storage.location

    @property
    def is_view(self) -> bool:
        return self.type.endswith("VIEW")

    @property
    def is_iceberg(self) -> bool:
        return self.parameters.get("table_type", "").upper() == "ICEBERG"

    @property
    def is_iceberg_view(self) -> bool:
        return self.parameters.get("table_type", "").upper() == "ICEBERG-VIEW"

    @property
    def ddl_time(self) -> int | None:
        return ddl_time(self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveDatabase:
    """A database of the metastore."""

    name: str
    location: str = ""
    comment: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HivePartition:
    """A partition of a table; `values` are in the order of the table's partition columns, unescaped."""

    values: tuple[str, ...]
    storage: HiveStorage
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def ddl_time(self) -> int | None:
        return ddl_time(self.parameters)

    @property
    def statistics(self) -> tuple[str | None, str | None]:
        """Number of files and total size as Hive keeps them: often stale, good only to see that something moved."""
        return self.parameters.get("numFiles"), self.parameters.get("totalSize")


def ddl_time(parameters: Mapping[str, str]) -> int | None:
    """Seconds of the last change that Hive itself noticed; inserts by Spark and Trino often leave it alone."""
    value = parameters.get("transient_lastDdlTime", "")
    return int(value) if value.isdecimal() else None


def describe_owner(table: HiveTable, partition: HivePartition | None = None) -> str | None:
    """Describe who may have changed a table or partition: the user of the last ALTER, and the table's owner."""
    parameters = table.parameters if partition is None else partition.parameters
    by, at = parameters.get("last_modified_by"), parameters.get("last_modified_time", "")
    parts = []
    if by:
        when = f", {datetime.fromtimestamp(int(at), UTC):%Y-%m-%d %H:%M} UTC" if at.isdecimal() else ""
        parts.append(f"{'the Hive table' if partition is None else 'the partition'} was last altered by {by}{when}")
    if table.owner:
        parts.append(f"the Hive table's owner is {table.owner}")
    return "; ".join(parts) or None
