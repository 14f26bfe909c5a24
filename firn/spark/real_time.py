"""Starts streaming queries in Spark's Real-Time Mode (docs/streams.md#real-time-mode)."""

from __future__ import annotations

import inspect

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter


def realtime(writer: DataStreamWriter, every: str) -> DataStreamWriter:
    """Let a query run in Real-Time Mode, with a checkpoint `every` so often, such as "1 minute".

    It sets the output mode `update`, the only one that the mode has. Spark refuses `foreachBatch` there, so such a
    query writes to Kafka, at least once, and never to a table. PySpark 4.1 has no keyword for the trigger, but its JVM
    has the trigger.
    """
    writer = writer.outputMode("update")
    if "realTime" in inspect.signature(writer.trigger).parameters:
        return writer.trigger(realTime=every)  # type: ignore[call-overload,no-any-return]
    spark: SparkSession = writer._spark  # noqa: SLF001 -- there is no other way
    trigger = spark._jvm.org.apache.spark.sql.streaming.Trigger  # type: ignore[union-attr]
    writer._jwrite = writer._jwrite.trigger(trigger.RealTime(every))  # noqa: SLF001
    return writer
