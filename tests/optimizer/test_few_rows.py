"""The optimizer compares few rows as Spark compares many (decision 220)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    TimestampType,
)

from firn.spark.target import Target
from optimizer.pipelines.few_rows import can_compare, compare_few

FIELDS = {"k": LongType(), "v": DoubleType(), "at": TimestampType(), "fare": DecimalType(10, 2)}
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.float64(), "at": pa.timestamp("us", "UTC"), "fare": pa.decimal128(10, 2)})
AT = datetime(2026, 1, 1, tzinfo=UTC)


def build_target(**changes: Any) -> Target:
    facts: dict[str, Any] = {
        "name": "lake.mart.t",
        "change": "lake.mart.t.change",
        "key": ("k",),
        "sequence_field": None,
        "is_partition_scoped": False,
        "has_partial_columns": False,
        "fields": tuple(StructField(name, kind) for name, kind in FIELDS.items()),
        "partition_columns": (),
    }
    return Target(**facts | changes)


def build_rows(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(FIELDS, row, strict=True)) for row in rows], SCHEMA)


def compare(computed: pa.Table, current: pa.Table, **changes: Any) -> list[tuple[Any, ...]] | None:
    difference = compare_few(computed, current, build_target(**changes))
    if difference is None:
        return None
    assert difference.written + difference.deleted == len(difference.rows)
    assert difference.written + difference.unchanged == len(computed)
    return sorted((row["_op"], row["k"], row["v"]) for row in difference.rows.to_pylist())


def test_rows_that_are_equal_are_left_out() -> None:
    rows = build_rows((1, 0.5, AT, Decimal("1.50")), (2, None, None, None), (3, float("nan"), AT, None))
    assert compare(rows, rows) == []


def test_zeros_of_both_signs_are_equal() -> None:
    assert compare(build_rows((1, 0.0, AT, None)), build_rows((1, -0.0, AT, None))) == []


@pytest.mark.parametrize(
    "new",
    [(1, 0.6, AT, Decimal("1.50")), (1, None, AT, Decimal("1.50")), (1, float("nan"), AT, Decimal("1.50"))],
)
def test_rows_that_differ_are_written(new: tuple[Any, ...]) -> None:
    difference = compare_few(build_rows(new), build_rows((1, 0.5, AT, Decimal("1.50"))), build_target())
    assert difference is not None
    assert (difference.written, difference.deleted, difference.unchanged) == (1, 0, 0)


def test_rows_that_only_one_side_has_are_written_and_deleted() -> None:
    new, old = build_rows((1, 1.0, AT, None), (2, 2.0, AT, None)), build_rows((2, 2.0, AT, None), (3, 3.0, AT, None))
    assert compare(new, old) == [("D", 3, 3.0), ("U", 1, 1.0)]


def test_a_row_with_a_null_that_no_computed_row_has_is_deleted() -> None:
    schema = pa.schema([pa.field(field.name, field.type, nullable=field.name == "fare") for field in SCHEMA])
    computed = build_rows((1, 1.0, AT, None)).cast(schema)
    assert compare(computed, build_rows((2, None, AT, None))) == [("D", 2, None), ("U", 1, 1.0)]


def test_rows_of_the_table_that_share_a_key_are_replaced_although_one_of_them_is_right() -> None:
    right = (1, 1.0, AT, None)
    assert compare(build_rows(right), build_rows(right, (1, 2.0, AT, None))) == [("U", 1, 1.0)]
    assert compare(build_rows(right), build_rows((1, 2.0, AT, None), right)) == [("U", 1, 1.0)]


@pytest.mark.parametrize("rows", [((1, 1.0, AT, None), (1, 2.0, AT, None)), ((None, 1.0, AT, None),)])
def test_rows_with_wrong_keys_are_not_compared(rows: tuple[tuple[Any, ...], ...]) -> None:
    assert compare(build_rows(*rows), build_rows()) is None


def test_the_partition_names_a_row_where_keys_belong_to_partitions() -> None:
    later = datetime(2026, 1, 2, tzinfo=UTC)
    new, old = build_rows((1, 1.0, AT, None)), build_rows((1, 1.0, later, None))
    scoped = {"is_partition_scoped": True, "partition_columns": ("at",)}
    assert compare(new, old) == [("U", 1, 1.0)]
    assert compare(new, old, **scoped) == [("D", 1, 1.0), ("U", 1, 1.0)]


def test_only_values_that_python_compares_as_spark_are_compared() -> None:
    def can_be(kind: DataType, key: str) -> bool:
        return can_compare([StructField("k", IntegerType()), StructField("v", kind)], [key])

    assert all(can_be(kind, "v") for kind in (IntegerType(), StringType(), DecimalType(10, 2)))
    assert can_be(DoubleType(), "k")
    assert not can_be(DoubleType(), "v")  # a key that is NaN would be another one for Python each time
    assert not can_be(ArrayType(IntegerType()), "k")
    assert not can_be(StringType("UTF8_LCASE"), "k")  # Spark takes other texts for equal
