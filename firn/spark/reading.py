"""Reading keyed tables."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from firn.auto_sync import AutoSync
from firn.names import split_name
from firn.protocol.names import format_sql_name
from firn.spark.hive import before_read


def read(table: str, spark: SparkSession | None = None, *, auto_sync: AutoSync | str = AutoSync.NONE) -> DataFrame:
    """The table as it is now, as one frame: however often the frame is used, it shows this one state.

    It is named as in SQL, but only parts that hold a dot need backticks. In SQL, two references to a keyed table in one
    statement may show two states. With `auto_sync` a table over a Hive table is brought up to it first: `metadata`
    takes over its columns, `data` also its files, which waits for the sync and its job.

    RuntimeError when no session is running, ValueError for another `auto_sync`, FirnError when the sync cannot be had.
    """
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    before_read(active, table, auto_sync)
    return active.table(format_sql_name(split_name(table)))
