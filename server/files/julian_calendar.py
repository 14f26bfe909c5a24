"""By which calendar a Parquet file counts days before 1582-10-15.

Iceberg's readers take all days for Gregorian ones, as the format says. Spark 2, Spark 3 where it was told to, and Hive
count earlier ones by the Julian calendar, and say so in the file's metadata: Spark by its version and
`org.apache.spark.legacyDateTime` (its DataSourceUtils), Hive since 3.1.3 by `writer.date.proleptic` (HIVE-22589). Files
that say nothing, as Hive 2 wrote them, are believed, as Spark does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date

from catalog.files.data_file import FileStats
from server.files.layout import Layout, WrongLayout

_FIRST_DAY = (date(1582, 10, 15) - date(1970, 1, 1)).days
_DAYS = struct.Struct("<i")


def old_days(stats: FileStats, layout: Layout) -> str | None:
    """The first column of dates that holds days before 1582-10-15; None when none does, or statistics show none."""
    for column in layout.columns:
        lower = stats.lower_bounds.get(column.field_id) if column.is_date else None
        if lower is not None and _DAYS.unpack(lower)[0] < _FIRST_DAY:
            return column.name
    return None


def check_calendar(column: str, marks: Mapping[str, str]) -> None:
    """WrongLayout when the writer counted such days by the Julian calendar."""
    spark = marks.get("org.apache.spark.version", "")
    if (
        "org.apache.spark.legacyDateTime" in marks
        or spark.startswith(("1.", "2."))
        or marks.get("writer.date.proleptic") == "false"
    ):
        raise WrongLayout(
            f"column {column!r} holds days before 1582-10-15 by the Julian calendar, "
            "which Iceberg's readers would show as others",
            hint="Correct these rows in Hive (they are placeholders mostly), or write them again with "
            "hive.parquet.date.proleptic.gregorian=true, or by Spark 3 or later.",
        )
