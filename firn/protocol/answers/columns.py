"""Statistics of a table's columns (docs/columns.md)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from firn.protocol.base import Open, Out


class Certainty(StrEnum):
    """How a figure stands to the rows that readers see."""

    EXACT = "exact"
    BOUND = "bound"
    PARTIAL = "partial"


class ColumnStatisticsOut(Out):
    """A column. Values are text, because JavaScript has no exact long and decimal numbers."""

    id: int
    name: str
    """The path of a nested field: `address.city`."""
    type: str
    required: bool
    comment: str | None
    labels: list[str]
    nulls: int | None
    """None if no file counts them."""
    counted_rows: int
    """The rows of the files that count the nulls of this column."""
    nulls_are: Open[Certainty]
    lower: str | None
    upper: str | None
    range_is: Open[Certainty]
    bytes: int | None
    """The compressed size in those files that tell it; None if no file does, as with ORC."""
    distinct: int | None
    """An estimate, from a statistics file; None if no job has counted the column."""
    distinct_snapshot_id: str | None
    distinct_is_current: bool


class TableColumnsOut(Out):
    """The columns of a table with statistics, and how certain these are."""

    snapshot_id: str | None
    """The snapshot of the table, or of the base store, that was counted."""
    counted_at: datetime
    rows: int
    files: int
    files_read: int
    pending_rows: int
    notes: list[str]
    """Why figures are bounds or partial, for people."""
    columns: list[ColumnStatisticsOut]
