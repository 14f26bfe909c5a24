"""Records of a log as changes of a table, in Spark. `catalog/kafka/records.py` has the same rules for a few records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.names import quote_name
from firn.spark.target import Target

PARTITION, OFFSET, REASON = "_firn_partition", "_firn_offset", "_firn_reason"
_CORRUPT, _RANK = "_firn_corrupt", "_firn_rank"
UPSERT_JSON = "upsert-json"


def read_records(spark: SparkSession, batch: LogBatch, options: Mapping[str, str]) -> DataFrame:
    """Read the committed records of a batch. Records of aborted transactions do not appear."""
    reader = spark.read.format("kafka").options(**options).option("subscribe", batch.topic)
    for name, offsets in (("startingOffsets", batch.start), ("endingOffsets", batch.end)):
        reader = reader.option(name, json.dumps({batch.topic: {str(number): at for number, at in offsets.items()}}))
    return reader.load()


def decode_changes(records: DataFrame, log: LogOut, target: Target) -> DataFrame:
    """Decode records: the table's columns, `_op`, partition, offset, and the reason why a record is no change."""
    value = _parse("value", [*target.fields, StructField("_op", StringType())])
    parsed = records.select(
        F.col("partition").alias(PARTITION), F.col("offset").alias(OFFSET), "key", "value", value.alias("v")
    )
    if log.format == UPSERT_JSON:
        keys = [field for field in target.fields if field.name in target.key]
        changes = _decode_upserts(parsed.withColumn("k", _parse("key", keys)), target)
    else:
        op = F.coalesce(F.col("v._op"), F.lit("U"))
        reason = _explain("value", "v")
        columns = [F.col(f"v.{quote_name(field.name)}") for field in target.fields]
        changes = parsed.select(PARTITION, OFFSET, *columns, op.alias("_op"), reason.alias(REASON))
    return _apply_deletes(changes.withColumn(REASON, F.coalesce(REASON, _check_row(target))), log)


def keep_newest(changes: DataFrame, target: Target) -> DataFrame:
    """Keep the newest change of each key, and all records that are no changes."""
    order = [F.col(quote_name(target.sequence_field)).desc()] if target.sequence_field else []
    keys = [F.col(quote_name(key)) for key in target.key]
    window = Window.partitionBy(*keys).orderBy(*order, F.col(PARTITION).desc(), F.col(OFFSET).desc())
    ranked = changes.withColumn(_RANK, F.row_number().over(window))
    return ranked.where((F.col(_RANK) == 1) | F.col(REASON).isNotNull()).drop(_RANK)


def _parse(column: str, fields: Sequence[StructField]) -> Column:
    schema = StructType([StructField(field.name, field.dataType, nullable=True) for field in fields])
    schema = schema.add(StructField(_CORRUPT, StringType()))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(F.col(column).cast("string"), schema, options)


def _decode_upserts(parsed: DataFrame, target: Target) -> DataFrame:
    """Flink's `upsert-kafka`: a record without a value deletes the key."""
    deletes = F.col("value").isNull()
    columns = [
        (
            F.when(deletes, F.col(f"k.{name}")).otherwise(F.col(f"v.{name}"))
            if field.name in target.key
            else F.when(~deletes, F.col(f"v.{name}"))
        ).alias(field.name)
        for field in target.fields
        for name in [quote_name(field.name)]
    ]
    op = F.when(deletes, F.lit("D")).otherwise(F.lit("U"))
    reason = F.when(deletes, _explain("key", "k")).otherwise(_explain("value", "v"))
    return parsed.select(PARTITION, OFFSET, *columns, op.alias("_op"), reason.alias(REASON))


def _explain(part: str, parsed: str) -> Column:
    """The reason why the key or the value of a record is no row of the table; null if it is one."""
    return (
        F.when(F.col(part).isNull(), F.lit(f"the record has no {part}"))
        .when(~F.ltrim(F.col(part).cast("string")).startswith("{"), F.lit(f"the {part} is no JSON object"))
        .when(
            F.col(parsed).isNull() | F.col(f"{parsed}.{_CORRUPT}").isNotNull(),
            F.lit(f"the {part} does not fit the columns of the table"),
        )
    )


def _check_row(target: Target) -> Column:
    op = F.col("_op")
    reason = F.when(~op.isin("I", "U", "D"), F.concat(F.lit("_op is "), F.left(op, F.lit(40))))
    for name in [*target.key, *([target.sequence_field] if target.sequence_field else [])]:
        reason = reason.when(F.col(quote_name(name)).isNull(), F.lit(f"{name} is null"))
    for name in target.delete_columns:
        text = F.lit(f"a delete needs {name}")
        reason = reason.when((op == "D") & F.col(quote_name(name)).isNull(), text)
    return reason


def _apply_deletes(changes: DataFrame, log: LogOut) -> DataFrame:
    deletes = F.col("_op") == "D"
    if log.deletes == "ignore":
        return changes.where(~deletes | F.col(REASON).isNotNull())
    if log.deletes == "stop":
        stop = F.when(deletes, F.lit("the record is a delete, and firn.log.deletes is stop"))
        return changes.withColumn(REASON, F.coalesce(REASON, stop))
    return changes
