"""Filters as people type them: what they mean, what may go before the merge, and what is said about bad ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, StringType, StructType

from firn.errors import Invalid
from firn.scan.filters import columns_of, filtered, on_columns, parsed

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
    assert filtered(ROWS, parsed(text, SCHEMA), SCHEMA)["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("id = 1 and city = 'Bern'", [1]),
        ("id = 1 or city = 'Bern'", [1, 2, 3]),
        ("not (id = 1 or city = 'Bern')", [2, 3]),
        ("city = 'Bern'", [1, 2, 3]),
    ],
)
def test_only_conditions_on_the_key_go_before_the_merge(text: str, early: list[int]) -> None:
    safe = on_columns(parsed(text, SCHEMA), SCHEMA, ["id"])
    assert filtered(ROWS, safe, SCHEMA)["id"].to_pylist() == early


def test_the_columns_of_a_filter_are_top_level_ones() -> None:
    assert columns_of(parsed("a.b = 1 and day is not null", SCHEMA), SCHEMA) == {"a", "day"}


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
        parsed(text, SCHEMA)
    assert refused.value.hint
    assert refused.value.exit_code == 2
