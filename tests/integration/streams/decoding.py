"""A table and records of Kafka as Spark reads them, for tests that decode without a broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from firn.spark.target import Target

KAFKA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
FIELDS: Mapping[str, DataType] = {
    "id": LongType(),
    "n": IntegerType(),
    "amount": DecimalType(9, 2),
    "day": DateType(),
    "name": StringType(),
    "ok": BooleanType(),
    "list": ArrayType(IntegerType()),
    "place": StructType([StructField("x", IntegerType())]),
}


def target_of(fields: Mapping[str, DataType]) -> Target:
    """A keyed table with these columns; its key is `id`."""
    return Target(
        name="lake.db.t",
        change="lake.db.t.change",
        key=("id",),
        sequence_field=None,
        is_partition_scoped=False,
        has_partial_columns=False,
        fields=tuple(StructField(name, type_) for name, type_ in fields.items()),
        partition_columns=(),
    )
