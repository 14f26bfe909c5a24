"""Reading keyed tables."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from firn.names import parts_of, sql_name


def read(table: str, spark: SparkSession | None = None) -> DataFrame:
    """The table as it is now, as one frame: however often the frame is used, it shows this one state.

    It is named as in SQL, but only parts that hold a dot need backticks. In SQL, two references to a keyed table in one
    statement may show two states. RuntimeError when no session is running.
    """
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    return active.table(sql_name(parts_of(table)))
