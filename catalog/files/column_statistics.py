"""Statistics of columns: nulls, smallest and largest values, and sizes, from the statistics of data files.

Writers store them for each file. They are exact for the rows of the files, so they are exact for the table while
nothing hides rows of these files and every file has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from catalog.iceberg.json import Json

SKETCH = "apache-datasketches-theta-v1"
"""The blob type of the table specification for a column's distinct values."""


class Certainty(StrEnum):
    """How a figure stands to the rows that readers see."""

    EXACT = "exact"
    BOUND = "bound"
    """Not more nulls than this; no value outside this range."""
    PARTIAL = "partial"
    """Some rows are not counted: there may be more nulls, and values outside this range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedColumn:
    """A column, or a field of a struct in it."""

    id: int
    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class FileCounts:
    """What one data file says of a column; None where it says nothing. Bounds are decoded."""

    rows: int
    nulls: int | None
    values: int | None
    lower: Any
    upper: Any
    size: int | None


@dataclass(slots=True, kw_only=True)
class ColumnCounter:
    """Adds up one column over the files of one or two stores."""

    column: CountedColumn
    rows: int = 0
    """Rows of the files that count the column's nulls."""
    nulls: int = 0
    size: int | None = None
    """The compressed bytes in the files that tell; None if none does, such as ORC files."""
    lower: Any = None
    upper: Any = None
    is_unbounded: bool = False
    """Whether a file has values, but no bounds of them."""

    def add(self, file: FileCounts) -> None:
        """Add one file."""
        if file.nulls is not None:
            self.rows += file.rows
            self.nulls += file.nulls
        if file.size is not None:
            self.size = (self.size or 0) + file.size
        self.widen(file.lower, file.upper)
        has_values = file.nulls is None or file.values is None or file.nulls < file.values
        if has_values and (file.lower is None or file.upper is None):
            self.is_unbounded = True

    def widen(self, lower: Any, upper: Any) -> None:
        """Include the range of a file, or of the partitions of a manifest."""
        if lower is not None and (self.lower is None or lower < self.lower):
            self.lower = lower
        if upper is not None and (self.upper is None or upper > self.upper):
            self.upper = upper


@dataclass(slots=True, kw_only=True)
class StoreCounts:
    """The columns of a table, added up over files."""

    columns: Mapping[int, ColumnCounter]
    files: int = 0
    files_read: int = 0
    rows_read: int = 0
    has_deletes: bool = False
    whole_ranges: set[int] = field(default_factory=set)
    """Columns whose ranges include the unread files, because these name them as partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctValues:
    """The estimated number of distinct values of a column, as of a snapshot."""

    estimate: int
    snapshot_id: int


_UNCOMPARED = frozenset({"unknown", "variant", "geometry", "geography"})
_CUT = frozenset({"string", "binary", "fixed"})
"""Types of which writers store only the beginnings of bounds."""


def list_counted_columns(schema: Json) -> list[CountedColumn]:
    """The columns of a schema that have statistics: those of single values, and such fields of structs.

    Elements of lists and maps are left out: their counts are not counts of rows.
    """
    return list(_list_counted(schema["fields"], ""))


def _list_counted(fields: Sequence[Json], path: str) -> Iterator[CountedColumn]:
    for column in fields:
        name, kind = f"{path}{column['name']}", column["type"]
        if isinstance(kind, str) and kind.partition("(")[0] not in _UNCOMPARED:
            yield CountedColumn(id=column["id"], path=name, kind=kind)
        elif isinstance(kind, dict) and kind.get("type") == "struct":
            yield from _list_counted(kind["fields"], f"{name}.")


def judge_nulls(counts: StoreCounts, counter: ColumnCounter, *, hides_rows: bool) -> Certainty:
    """How certain the number of nulls is."""
    if counts.files_read < counts.files or counter.rows < counts.rows_read:
        return Certainty.PARTIAL
    return Certainty.BOUND if hides_rows and counter.nulls else Certainty.EXACT


def judge_range(counts: StoreCounts, counter: ColumnCounter, *, hides_rows: bool) -> Certainty:
    """How certain the smallest and the largest value are."""
    is_whole = counts.files_read == counts.files or counter.column.id in counts.whole_ranges
    if counter.is_unbounded or not is_whole:
        return Certainty.PARTIAL
    root = counter.column.kind.partition("(")[0].partition("[")[0]
    return Certainty.BOUND if hides_rows or root in _CUT else Certainty.EXACT


def read_distinct_values(metadata: Json, head_id: int | None) -> Mapping[int, DistinctValues]:
    """The estimates in a table's statistics files by field id: the head's, or else the newest.

    The metadata repeats them, so nothing is read. Engines write it; what is no number is left out.
    """
    newest: dict[int, tuple[bool, int]] = {}
    estimates: dict[int, DistinctValues] = {}
    for file in metadata.get("statistics") or ():
        for blob in file.get("blob-metadata") or ():
            text, ids = str((blob.get("properties") or {}).get("ndv")), list(blob.get("fields") or ())
            if blob.get("type") != SKETCH or len(ids) != 1 or not _is_count(text):
                continue
            snapshot_id = file["snapshot-id"]
            order = (snapshot_id == head_id, int(blob.get("sequence-number") or 0))
            if ids[0] not in newest or order > newest[ids[0]]:
                newest[ids[0]] = order
                estimates[ids[0]] = DistinctValues(estimate=int(text), snapshot_id=snapshot_id)
    return estimates


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
