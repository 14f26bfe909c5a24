"""The result of decoding a log: each record is either changes of the table, or a bad record with its reason.

A decoder of one format takes records with Kafka's columns. It gives a frame with the table's columns, `_op`, and the
columns below. A row whose REASON is null is a change. For a bad record, the decoder gives one row with the reason, and
with the name of the column if one column is the cause; its change columns mean nothing. A record may also give no row,
or several changes.

Reasons are few fixed sentences without values of the record, because users see how often each one occurs.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

PARTITION, OFFSET = "_firn_partition", "_firn_offset"
RECORD = "_firn_record"
"""A struct of the record itself: topic, timestamp, key, value and headers."""
REASON, COLUMN = "_firn_reason", "_firn_column"
INDEX = "_firn_index"
"""The number of a change in its record, from decoders whose records may have several; below 2^16."""
OWN = (PARTITION, OFFSET, RECORD, REASON, COLUMN)
_TASK = "_firn_task"

_BAD = "bad record"


def carry_record() -> list[Column]:
    """The columns that a decoder takes over from Kafka's columns: PARTITION, OFFSET and RECORD."""
    record = F.struct(*(F.col(name) for name in ("topic", "timestamp", "key", "value", "headers")))
    return [F.col("partition").alias(PARTITION), F.col("offset").alias(OFFSET), record.alias(RECORD)]


def select_rows(decoded: DataFrame, condition: Column) -> DataFrame:
    """The rows of a condition. Spark evaluates it once, after decoding.

    Spark would push a plain filter below the decoder, and parse each record many times. It does not push conditions on
    a value that depends on the task.
    """
    with_task = decoded.withColumn(_TASK, F.spark_partition_id())
    return with_task.where(condition & (F.col(_TASK) >= 0)).drop(_TASK)


def select_changes(decoded: DataFrame) -> DataFrame:
    """The changes, without the bad records."""
    return select_rows(decoded, F.col(REASON).isNull())


def select_bad(decoded: DataFrame) -> DataFrame:
    """The bad records: PARTITION, OFFSET, RECORD, REASON and COLUMN."""
    return select_rows(decoded, F.col(REASON).isNotNull()).select(*OWN)


def fail_on_bad(decoded: DataFrame) -> DataFrame:
    """The same rows; an action on them fails at the first bad record, and names its partition and offset."""
    where = F.concat_ws(" ", F.lit(_BAD), F.col(PARTITION).cast("string"), F.col(OFFSET).cast("string"))
    op = F.when(F.col(REASON).isNotNull(), F.raise_error(where).cast("string")).otherwise(F.col("_op"))
    return decoded.withColumn("_op", op)
