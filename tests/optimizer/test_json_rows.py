"""What becomes of JSON: a value that fits its column, or words that say why not."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from optimizer.json_rows import Unfit, row_reader

LONG = "12345678901234567890.123456789012345678"
INT, STRING = IntegerType(), StringType()
INNER = StructType([StructField("a", INT), StructField("b", StructType([StructField("c", STRING)]))])


def read(kind: DataType, line: str | None) -> Any:
    return row_reader([StructField("c", kind)])(line)["c"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BooleanType(), "true", True),
        (BooleanType(), '"FALSE"', False),
        (ByteType(), "-128", -128),
        (LongType(), "9223372036854775807", 9223372036854775807),
        (INT, '"12"', 12),
        (DoubleType(), "1e400", float("inf")),
        (FloatType(), '"NaN"', "nan"),
        (DecimalType(38, 18), LONG, Decimal(LONG)),
        (DecimalType(5, 2), "1.005", Decimal("1.01")),
        (DecimalType(2, 2), "0.99", Decimal("0.99")),
        (STRING, '"ü\\n"', "ü\n"),
        (STRING, "1.10", "1.10"),
        (STRING, "true", "true"),
        (DateType(), '"0001-01-01"', date(1, 1, 1)),
        (TimestampType(), '"2026-01-01T10:00:00.123456789"', datetime(2026, 1, 1, 10, 0, 0, 123456)),  # noqa: DTZ001
        (ArrayType(INT), "[1, null]", [1, None]),
        (MapType(INT, STRING), '{"1": "a"}', [(1, "a")]),
        (INNER, '{"B": {"C": "x", "c": "y"}}', {"a": None, "b": {"c": "y"}}),
        (INT, "null", None),
    ],
)
def test_a_value_that_fits(kind: DataType, value: str, expected: Any) -> None:
    row = read(kind, f'{{"x": [1], "C": {value}}}')
    assert (str(row) if expected == "nan" else row) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BooleanType(), "1"),
        (ByteType(), "128"),
        (INT, "1.5"),
        (INT, "true"),
        (INT, '""'),
        (DoubleType(), '"x"'),
        (DecimalType(5, 2), "1000"),
        (DecimalType(5, 2), '"NaN"'),
        (STRING, "{}"),
        (STRING, "[1]"),
        (DateType(), '"2026-02-30"'),
        (DateType(), '"2026-01-01 00:00:00"'),
        (TimestampType(), '"2026-01-01T10:00:00Z"'),
        (ArrayType(INT), '{"0": 1}'),
        (MapType(STRING, INT), "[]"),
        (INNER, '"a"'),
    ],
)
def test_a_value_that_does_not_fit_stops_the_job_with_its_column(kind: DataType, value: str) -> None:
    with pytest.raises(Unfit, match="column 'c': "):
        read(kind, f'{{"c": {value}}}')


@pytest.mark.parametrize("line", ["", "x", '{"c": 1', "[1]", "1", None])
def test_a_line_that_is_no_object_stops_the_job(line: str | None) -> None:
    with pytest.raises(Unfit):
        read(INT, line)
