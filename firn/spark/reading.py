"""Reading keyed tables."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from firn.auto_sync import AutoSync
from firn.image_lag import IMAGE_LAG, warn_about_lag
from firn.names import split_name
from firn.protocol.names import format_sql_name
from firn.spark.hive import sync_before_read
from firn.spark.log_reading import read_with_log
from firn.transport import TRIES

_IMAGE_SNAPSHOT = "firn.image.snapshot"


def read(
    table: str,
    spark: SparkSession | None = None,
    *,
    auto_sync: AutoSync | str = AutoSync.NONE,
    log: bool = False,
) -> DataFrame:
    """Read the table as it is now. The frame always shows this one state, however often it is used.

    A keyed table's state is kept for `firn.read.keep` (24 hours) after it was last read. The name is that of SQL, but
    only parts with a dot need backticks. In SQL, two references to a keyed table in one statement may show two states.
    `auto_sync` syncs a linked table first: `metadata` takes over the columns of the Hive table, `data` also its files,
    and waits for the sync and its job. With `log` the rows include the records of the table's log that no drain has
    brought yet; see `firn.spark.log_reading.read_with_log`.

    Raises RuntimeError without a running session, ValueError for another `auto_sync`, and FirnError if the sync fails.
    """
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    sync_before_read(active, table, auto_sync)
    if log:
        return read_with_log(active, table)
    parts = split_name(table)
    snapshot = _find_image(active, format_sql_name(parts))
    return active.table(format_sql_name(parts if snapshot is None else [*parts, f"merged_at_{snapshot}"]))


def _find_image(spark: SparkSession, table: str) -> str | None:
    """The snapshot of the keyed table's newest state; None for another table or view, and for an empty one.

    Each try gives the server `firn.read.max-wait` once more to merge the newest commits.
    """
    try:
        properties = _show_properties(spark, table)
        for _ in range(TRIES - 1):
            if IMAGE_LAG not in properties:
                break
            spark.sql(f"REFRESH TABLE {table}")
            properties = _show_properties(spark, table)
    except AnalysisException:  # no table: reading it says so in Spark's words
        return None
    if IMAGE_LAG in properties:
        warn_about_lag(table, properties[IMAGE_LAG])
    value = properties.get(_IMAGE_SNAPSHOT, "")
    return value if value.isdecimal() else None


def _show_properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {str(row["key"]): str(row["value"]) for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
