"""Reading keyed tables."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from firn.auto_sync import AutoSync
from firn.names import split_name
from firn.protocol.names import format_sql_name
from firn.spark.hive import sync_before_read


def read(table: str, spark: SparkSession | None = None, *, auto_sync: AutoSync | str = AutoSync.NONE) -> DataFrame:
    """Read the table as it is now. The frame always shows this one state, however often it is used.

    The name is that of SQL, but only parts with a dot need backticks. In SQL, two references to a keyed table in one
    statement may show two states. `auto_sync` syncs a linked table first: `metadata` takes over the columns of the Hive
    table, `data` also its files, and waits for the sync and its job.

    Raises RuntimeError without a running session, ValueError for another `auto_sync`, and FirnError if the sync fails.
    """
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    sync_before_read(active, table, auto_sync)
    return active.table(format_sql_name(split_name(table)))
