"""The calendar of days before 1582-10-15 in Parquet files.

Iceberg's readers interpret all days as Gregorian, as the format requires. Spark 2, Spark 3 in legacy mode, and Hive
write earlier days in the Julian calendar and record that in the file's metadata: Spark by its version and
`org.apache.spark.legacyDateTime` (its DataSourceUtils), Hive since 3.1.3 by `writer.date.proleptic` (HIVE-22589).
Like Spark, the server accepts files without such a record, which Hive 2 wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date

from catalog.files.data_file import FileStats
from server.files.layout import Layout, WrongLayout

_FIRST_DAY = (date(1582, 10, 15) - date(1970, 1, 1)).days
_DAYS = struct.Struct("<i")


def find_old_days(stats: FileStats, layout: Layout) -> str | None:
    """Find the first date column with days before 1582-10-15; None when the statistics show no such column."""
    for column in layout.columns:
        lower = stats.lower_bounds.get(column.field_id) if column.is_date else None
        if lower is not None and _DAYS.unpack(lower)[0] < _FIRST_DAY:
            return column.name
    return None


def check_calendar(column: str, marks: Mapping[str, str]) -> None:
    """Check the calendar of the writer: WrongLayout when it wrote such days in the Julian calendar."""
    spark = marks.get("org.apache.spark.version", "")
    if (
        "org.apache.spark.legacyDateTime" in marks
        or spark.startswith(("1.", "2."))
        or marks.get("writer.date.proleptic") == "false"
    ):
        raise WrongLayout(
            f"column {column!r} has days before 1582-10-15 in the Julian calendar, "
            "which Iceberg's readers would show as other days",
            hint="Correct these rows in Hive (most are placeholders), or rewrite them with "
            "hive.parquet.date.proleptic.gregorian=true, or by Spark 3 or later.",
        )
