"""Appends of decoded changes to the change store of a keyed table, with a step of their writer's position."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.target import SET_COLUMN, Target


def append_changes(changes: DataFrame, target: Target, summary: Mapping[str, str]) -> None:
    """Append changes, distributed and ordered as they are; `summary` goes to the snapshot. Raises Java's errors."""
    own = ["_source", *([SET_COLUMN] if target.has_partial_columns else [])]
    missing = [name for name in own if name not in changes.columns]  # null: the record sets all columns
    writer = changes.withColumns({name: F.lit(None).cast("string") for name in missing}).writeTo(target.change)
    # Iceberg would shuffle by partition, and sort by partition and by the table's sort order, and so lose the order of
    # changes.
    writer = writer.option("distribution-mode", "none").option("use-table-distribution-and-ordering", "false")
    writer = writer.option("fanout-enabled", "true")
    for key, text in summary.items():
        writer = writer.option(f"snapshot-property.{key}", text)
    with silence_failure_logs(changes.sparkSession):
        writer.append()
