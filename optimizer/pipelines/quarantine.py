"""The quarantine of a target: a table of the rows that its validators have dropped (docs/protocols.md, rule 8.22).

The run commits these rows together with those of its target, so each dropped row is there once for each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import format_sql_name
from firn.protocol.pipeline_quarantine import COLUMNS
from optimizer.errors import Refused
from optimizer.pipelines.auditing import KeptRows
from optimizer.pipelines.lake import Lake
from optimizer.pipelines.writing import PlainRows


@dataclass(frozen=True)
class Quarantine:
    """The table, and the run that brings rows to it."""

    lake: Lake
    table: str
    run_id: str

    def create(self) -> None:
        """Create the table unless it exists. Raises Refused for a table with other columns."""
        name = format_sql_name(self.lake.parts(self.table))
        columns = ", ".join(f"`{column}` {kind}" for column, kind in COLUMNS)
        self.lake.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg")
        existing = [(field.name, field.dataType.simpleString()) for field in self.lake.spark.table(name).schema.fields]
        if existing != list(COLUMNS):
            raise Refused(
                f"{self.lake.path(self.table)} gets the rows that validators drop, and has other columns than "
                f"{', '.join(column for column, _ in COLUMNS)}: rename or drop it, and run again"
            )

    def build_rows(self, kept: KeptRows, pinned_at: datetime) -> PlainRows | None:
        """The rows that were dropped, as the table takes them; None if there are none."""
        if kept.violations is None:
            return None
        wrong = kept.violations.where(F.size("rules") > 0)
        rows = wrong.select(
            F.lit(self.run_id).alias("run"),
            F.lit(pinned_at).cast("timestamp").alias("at"),
            "rules",
            F.to_json("row", {"ignoreNullFields": "false"}).alias("row"),
        )
        return PlainRows(rows, format_sql_name(self.lake.parts(self.table)), is_append=True)
