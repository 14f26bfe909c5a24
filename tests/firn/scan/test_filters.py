"""Filters as people type them: what they mean, what may go before the merge, and what is said about bad ones."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from firn.errors import Invalid
from firn.scan.filters import apply_filter, list_filter_columns, parse_filter

INNER = StructType(NestedField(5, "b", LongType(), required=False))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "city", StringType(), required=False),
    NestedField(4, "a", INNER, required=False),
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3]),
        "day": pa.array([20000, 20001, None], pa.date32()),
        "city": pa.array(["Bern", None, "Bonn"]),
        "a": pa.array([{"b": 1}, {"b": 2}, None], pa.struct([("b", pa.int64())])),
    }
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (None, [1, 2, 3]),
        ("id > 1", [2, 3]),
        ("day = '2024-10-04'", [1]),
        ("city not in ('Bonn', 'Kiel')", [1]),
        ("not (city in ('Bonn', 'Kiel') or id = 7)", [1]),
        ("city != 'Bonn'", [1]),
        ("city is null or city like 'Bo%'", [2, 3]),
        ("not city like 'Bo%'", [1]),
        ("a.b >= 2", [2]),
        ("id in (1, 3) and day is null", [3]),
    ],
)
def test_a_filter_keeps_what_sql_keeps(text: str | None, ids: list[int]) -> None:
    assert apply_filter(ROWS, parse_filter(text, SCHEMA), SCHEMA)["id"].to_pylist() == ids


def test_the_columns_of_a_filter_are_top_level_ones() -> None:
    assert list_filter_columns(parse_filter("a.b = 1 and day is not null", SCHEMA), SCHEMA) == {"a", "day"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cty = 'Bern'", "Could not find field with name cty"),
        ("id = 'one'", "Could not convert one into a long"),
        ("id = ", "does not parse at character"),
        ("", "does not parse at character"),
        ("day = 'someday'", "day = 'someday'"),
    ],
)
def test_a_bad_filter_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        parse_filter(text, SCHEMA)
    assert refused.value.hint
    assert refused.value.exit_code == 2


PAID = Schema(
    NestedField(1, "amount", DecimalType(10, 2), required=False),
    NestedField(2, "n", IntegerType(), required=False),
    NestedField(3, "ref", UUIDType(), required=False),
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("amount = 1.5", [1]),
        ("amount > 1", [1, 2]),
        ("amount >= 2.250", [2]),
        ("n != 99999999999", [1, 2]),
        ("n < 99999999999", [1, 2]),
        ("n not in (99999999999, 1)", [2]),
        ("not n = 99999999999 or n is null", [1, 2, 3]),
    ],
)
def test_numbers_are_compared_as_in_sql_whatever_their_scale_and_size(text: str, kept: list[int]) -> None:
    amounts = pa.array([Decimal("1.50"), Decimal("2.25"), None], pa.decimal128(10, 2))
    rows = pa.table({"amount": amounts, "n": pa.array([1, 2, None], pa.int32()), "row": [1, 2, 3]})
    assert apply_filter(rows, parse_filter(text, PAID), PAID)["row"].to_pylist() == kept


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("city like '%nn'", "is not supported"),
        ("city like 'B_nn'", "_ in LIKE"),
        ("city like 'B%' and city like 'B_%'", "_ in LIKE"),
    ],
)
def test_patterns_that_would_mean_something_else_are_refused(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse_filter(text, SCHEMA)


def test_what_arrow_cannot_compare_is_said_before_anything_is_read() -> None:
    with pytest.raises(Invalid, match="Arrow cannot compare"):
        parse_filter("ref = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", PAID)
