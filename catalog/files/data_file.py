"""A data file as an Iceberg manifest describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from catalog.errors import Invalid

PartitionValue = bool | int | float | str | bytes | Decimal | None
"""A value of a partition record.

Dates are days and timestamps microseconds since 1970, times microseconds since midnight, UUIDs bytes.
"""


class FileFormat(StrEnum):
    """Formats of data files, as manifests spell them."""

    PARQUET = "PARQUET"
    ORC = "ORC"
    AVRO = "AVRO"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """The statistics of a file's footer or header, by Iceberg field id.

    Bounds are in Iceberg's single-value serialization. A mapping without a column has no such fact: the file does not
    give it, or lacks the column.
    """

    location: str
    size: int
    record_count: int
    format: FileFormat = FileFormat.PARQUET
    split_offsets: tuple[int, ...] = ()
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    aliases: tuple[tuple[int, str], ...] = ()
    """Columns (by field id) that the file spells in another case than the schema. They
    belong into the name mapping.
    """
    digest: int | None = None
    """A digest of the file's end, which identifies the file after a move."""

    def count_nulls(self, column_id: int, name: str) -> int:
        """Count the nulls of a column. In a file without the column, every row is null.

        Raises Invalid if the file does not count them.
        """
        if column_id in self.null_counts:
            return self.null_counts[column_id]
        if column_id in self.value_counts or not self.record_count:
            raise Invalid(
                f"{self.location} does not say how many nulls column {name!r} has",
                hint="write the file again with statistics, or choose other key columns",
            )
        return self.record_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file without usable statistics, the reason, and the kind of problem."""

    location: str
    reason: str
    is_gone: bool = False
    """Whether the file no longer exists."""
    has_rows: bool = False
    """Whether an engine that reads columns by name can read its rows, though it cannot be registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileEntry:
    """A data file to register, with the partition of its rows."""

    stats: FileStats
    partition: tuple[PartitionValue, ...] = ()
    comes_first: bool = False
    """Whether its rows get lower row ids than those of other files of the snapshot; such files are added first."""


def order_partition(partition: tuple[PartitionValue, ...]) -> list[tuple[bool, PartitionValue]]:
    """A sort key for partitions, nulls first. Readers skip manifests if the files in them are neighbours in this
    order.
    """
    return [(value is not None, value) for value in partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data or delete file of a snapshot, as its manifests list it."""

    location: str
    content: int  # 0 data, 1 position deletes or a deletion vector, 2 equality deletes
    size: int
    record_count: int
    partition: tuple[PartitionValue, ...]
    spec_id: int
    sequence_number: int
    manifest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSnapshot:
    """A snapshot with written manifests, ready to commit."""

    snapshot: Mapping[str, Any]
    """In the form of the REST specification's `add-snapshot` update."""
    written: tuple[str, ...]
    """The manifests and manifest list written for it. Delete them if the commit is refused, and only then."""

    def requirements(self) -> list[dict[str, Any]]:
        """The requirement for the manifests to be right: main's head is still the parent."""
        parent = self.snapshot.get("parent-snapshot-id")
        return [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}]

    def updates(self) -> list[dict[str, Any]]:
        """The updates that make it main's head."""
        head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
        return [
            {"action": "add-snapshot", "snapshot": dict(self.snapshot)},
            {**head, "snapshot-id": self.snapshot["snapshot-id"]},
        ]
