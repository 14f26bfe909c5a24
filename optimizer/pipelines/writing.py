"""The one commit of a run, which also moves its writer to the new checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.protocol.pipelines import CHECKPOINT_KEY, Pins
from firn.spark.errors import CommitRefused
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.stream_writer import SUMMARY_OPTION, StreamWriter
from firn.spark.target import Target
from firn.spark.write import SMALL_BYTES, estimate_bytes
from optimizer.errors import Refused
from optimizer.pipelines.difference import unpack
from optimizer.pipelines.target import PipelineTarget


def commit_step(target: PipelineTarget, pins: Pins, append: Callable[[Mapping[str, str]], None]) -> str | None:
    """Commit with `append`, which gets the options of Spark's writer; return the snapshot, if the server tells it.

    Raises Refused if another copy of the run has registered, or the writer's position has moved: nothing was committed.
    Raises WriteUnknown if no answer came. The next attempt finds the position then.
    """
    writer = StreamWriter(target.path, target.lake.client, target.path, pins.writer)
    checkpoint = {f"{SUMMARY_OPTION}{CHECKPOINT_KEY}": pins.until.model_dump_json()}
    try:
        writer.commit_to(pins.until.id, lambda options: append({**options, **checkpoint}))
    except CommitRefused as refused:
        raise Refused(f"superseded: {refused}") from refused
    return target.lake.table(target.table).writers.get(pins.writer.name).snapshot_id


def append_changes(changes: DataFrame, target: Target, options: Mapping[str, str]) -> None:
    """Append changes to the change store of a keyed table, one for each key. Raises Java's errors."""
    is_small = estimate_bytes(changes) <= SMALL_BYTES
    keys = [F.col(quote_name(key)) for key in target.key]
    rows = unpack(changes, target).withColumn("_source", F.lit(None).cast("string"))
    writer = (rows.repartition(1, *keys) if is_small else rows).writeTo(target.change)
    if is_small:  # otherwise Iceberg shuffles again by partition
        writer = writer.option("distribution-mode", "none")
    for key, text in options.items():
        writer = writer.option(key, text)
    with silence_failure_logs(changes.sparkSession):
        writer.append()


def overwrite_rows(rows: DataFrame, table: str, options: Mapping[str, str]) -> None:
    """Replace all rows of a plain table, in one commit. Raises Java's errors."""
    writer = rows.writeTo(table)
    for key, text in options.items():
        writer = writer.option(key, text)
    with silence_failure_logs(rows.sparkSession):
        writer.overwrite(F.lit(True))
