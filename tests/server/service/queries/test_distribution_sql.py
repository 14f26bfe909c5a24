"""The statement that counts a column, checked as those of people and run by DuckDB: all types, and hostile names."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

from catalog.errors import Invalid
from catalog.names import CatalogName, TableName
from catalog.queries.distribution import (
    MOST_BARS,
    MOST_VALUES,
    Distribution,
    DistributionKind,
    find_scale,
    read_distribution,
    write_statement,
)
from optimizer.queries.values import show_column
from server.service.queries.statement import parse_statement

START = datetime(2026, 1, 1, tzinfo=UTC)


def count(kind: str, values: pa.Array, column: str = "c") -> Distribution:
    schema = {"type": "struct", "fields": [{"id": 1, "name": column, "type": kind}]}
    name, scale = find_scale(schema, column)
    written = write_statement(CatalogName("lake"), TableName(("a b", 'c"d'), "select"), column, name, scale)
    statement = parse_statement(written, most_rows=100)
    assert [table.parts for table in statement.tables] == [("lake", "a b", 'c"d', "select")]
    assert statement.columns is None or column.casefold() in statement.columns
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("firn_table_0", pa.table({column: values}))
        rows = connection.execute(statement.sql).to_arrow_table().combine_chunks()
    texts = [show_column(each.chunk(0)) for each in rows.columns]
    return read_distribution(zip(*texts, strict=True))


def check_bars(distribution: Distribution, rows: int) -> None:
    assert distribution.kind is DistributionKind.BARS
    assert 1 <= len(distribution.bars) <= MOST_BARS
    assert sum(bar.rows for bar in distribution.bars) == rows
    assert distribution.values == ()


def test_whole_numbers_have_bars_of_equal_width_with_both_ends() -> None:
    counted = count("long", pa.array([*range(-5, 100), None], pa.int64()))
    check_bars(counted, 105)
    assert [(bar.lower, bar.upper, bar.rows) for bar in counted.bars[:2]] == [("-5", "0", 6), ("1", "6", 6)]
    assert (counted.bars[-1].lower, counted.bars[-1].upper, counted.bars[-1].rows) == ("97", "99", 3)
    assert all(int(later.lower) == int(earlier.upper) + 1 for earlier, later in pairwise(counted.bars))
    assert (counted.rows, counted.nulls, counted.different, counted.different_is_exact) == (106, 1, 105, True)
    assert (counted.smallest, counted.largest, counted.other_rows) == ("-5", "99", 0)


def test_the_whole_range_of_longs_overflows_nothing() -> None:
    counted = count("long", pa.array([-(2**63), 2**63 - 1, *range(20)], pa.int64()))
    check_bars(counted, 22)
    assert (counted.bars[0].lower, counted.bars[-1].upper) == (str(-(2**63)), str(2**63 - 1))


def test_few_different_numbers_are_shown_by_their_values() -> None:
    counted = count("int", pa.array([7, 7, 7, 1_000_000, None], pa.int32()))
    assert counted.kind is DistributionKind.VALUES
    assert [(value.value, value.rows) for value in counted.values] == [("7", 3), ("1000000", 1)]
    assert (counted.bars, counted.other_rows, counted.nulls) == ((), 0, 1)


def test_nan_and_infinity_stand_apart_from_the_bars() -> None:
    largest = 1.7e308
    reals = [float("nan"), float("nan"), float("inf"), float("-inf"), largest, -largest, *(n / 7 for n in range(20))]
    counted = count("double", pa.array([*reals, None], pa.float64()))
    check_bars(counted, 22)
    assert (counted.nans, counted.infinite, counted.nulls) == (2, 2, 1)
    assert (counted.smallest, counted.largest) == ("-1.7e+308", "1.7e+308")
    assert (counted.bars[0].rows, counted.bars[-1].rows) == (1, 1)


def test_a_column_of_nan_and_infinity_alone_has_values() -> None:
    counted = count("float", pa.array([float("nan")] * 3 + [float("inf")], pa.float32()))
    assert {value.value: value.rows for value in counted.values} == {"nan": 3, "inf": 1}
    assert (counted.smallest, counted.largest, counted.nans, counted.infinite) == (None, None, 3, 1)


def test_the_smallest_and_largest_decimals_of_38_digits() -> None:
    digits = Decimal("9" * 38)
    counted = count(
        "decimal(38, 0)", pa.array([digits, digits.copy_negate(), *map(Decimal, range(20))], pa.decimal128(38, 0))
    )
    check_bars(counted, 22)
    assert (counted.smallest, counted.largest) == ("-" + "9" * 38, "9" * 38)


def test_decimals_that_differ_after_17_digits_share_one_bar_with_exact_ends() -> None:
    decimals = [Decimal(f"12345678901234567890.{number:010d}") for number in range(20)]
    counted = count("decimal(38, 10)", pa.array(decimals, pa.decimal128(38, 10)))
    (bar,) = counted.bars
    assert (bar.lower, bar.upper, bar.rows) == (str(decimals[0]), str(decimals[-1]), 20)


def test_days_have_whole_days_as_ends() -> None:
    counted = count("date", pa.array([date(1969, 12, 25) + timedelta(days=day) for day in range(50)], pa.date32()))
    check_bars(counted, 50)
    assert (counted.bars[0].lower, counted.bars[0].upper, counted.bars[-1].upper) == (
        "1969-12-25",
        "1969-12-27",
        "1970-02-12",
    )


@pytest.mark.parametrize(("kind", "zone", "shown"), [("timestamp", None, ""), ("timestamptz", "UTC", "+00:00")])
def test_times_have_bars_of_whole_seconds(kind: str, zone: str | None, shown: str) -> None:
    moments = [(START + timedelta(hours=hour)).replace(tzinfo=UTC if zone else None) for hour in range(50)]
    counted = count(kind, pa.array(moments, pa.timestamp("us", zone)))
    check_bars(counted, 50)
    assert counted.bars[0].lower == f"2026-01-01 00:00:00{shown}"
    assert counted.bars[0].upper == counted.bars[1].lower == f"2026-01-01 02:27:01{shown}"
    assert counted.bars[-1].upper == f"2026-01-03 01:00:00{shown}"


def test_times_that_no_calendar_has_are_shown_as_numbers() -> None:
    far = pa.array([10**17 * number for number in range(20)], pa.int64()).cast(pa.timestamp("us"))
    counted = count("timestamp", far)
    check_bars(counted, 20)
    assert counted.bars[-1].upper == "1,900,000,000,000 s after 1970-01-01"


def test_times_of_a_day() -> None:
    counted = count("time", pa.array([time(hour, 30) for hour in range(24)], pa.time64("us")))
    check_bars(counted, 24)
    assert (counted.bars[0].lower, counted.bars[-1].upper) == ("00:30:00", "23:30:00")


def test_texts_are_shown_by_their_most_frequent_values() -> None:
    texts = ["b"] * 3 + ["a"] * 3 + ["", None] + ["x" * 1_000] * 2 + [f"t{number:02}" for number in range(20)]
    counted = count("string", pa.array(texts, pa.string()))
    assert [(value.value, value.rows) for value in counted.values[:4]] == [
        ("a", 3),
        ("b", 3),
        ("x" * 200, 2),
        ("", 1),
    ]
    assert len(counted.values) == MOST_VALUES
    assert (counted.different, counted.nulls, counted.other_rows) == (24, 1, 14)


def test_booleans_and_uuids_are_texts() -> None:
    counted = count("boolean", pa.array([True, False, True, None]))
    assert [(value.value, value.rows) for value in counted.values] == [("true", 2), ("false", 1)]
    counted = count("uuid", pa.array([str(UUID(int=number % 3)) for number in range(9)]))
    assert counted.values[0].value == str(UUID(int=0))


def test_more_texts_than_the_engine_counts_have_an_estimate_and_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.queries.distribution.MOST_TEXTS", 100)
    counted = count("string", pa.array([f"t{number}" for number in range(5_000)]))
    assert (counted.values, counted.other_rows, counted.different_is_exact) == ((), 5_000, False)
    assert 3_000 < counted.different <= 5_000, "an estimate, and never more than there are rows"


@pytest.mark.parametrize("kind", ["int", "double", "date", "timestamptz", "string", "boolean", "decimal(9, 2)"])
@pytest.mark.parametrize("nulls", [0, 3])
def test_empty_tables_and_columns_of_nulls_have_no_values(kind: str, nulls: int) -> None:
    types: dict[str, Any] = {
        "int": pa.int32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamptz": pa.timestamp("us", "UTC"),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "decimal(9, 2)": pa.decimal128(9, 2),
    }
    counted = count(kind, pa.array([None] * nulls, types[kind]))
    assert (counted.rows, counted.nulls, counted.different) == (nulls, nulls, 0)
    assert (counted.kind, counted.bars, counted.values) == (DistributionKind.VALUES, (), ())
    assert (counted.smallest, counted.largest) == (None, None)


HOSTILE = (
    "select",
    'a"b',
    '"; DROP TABLE t; --',
    "it's",
    "/* */",
    "-- no comment",
    "line\nbreak",
    "back\\slash\\'",
    "naïve 列 🦔 \u202e",
    "read_csv('/etc/passwd')",
    "$1",
    "?",
    "{{ c }}",
    "a.b",
    "UPPER",
    "v",
    "n",
    "part",
    "firn_source",
    "firn_values",
    "*",
    " ",
    "x" * 900,
)


@pytest.mark.parametrize("column", HOSTILE)
def test_hostile_names_are_names(column: str) -> None:
    counted = count("int", pa.array([1, 2, 2], pa.int32()), column)
    assert counted.column == column
    assert [(value.value, value.rows) for value in counted.values] == [("2", 2), ("1", 1)]


STRUCT = {"type": "struct", "fields": [{"id": 9, "name": "city", "type": "string"}]}
REFUSED = {
    "address": (STRUCT, "address is a struct"),
    "address.city": (STRUCT, "a part of column address"),
    "tags": ({"type": "list", "element-id": 9, "element": "int"}, "tags is a list"),
    "blob": ("binary", "binary have no distribution"),
    "hash": ("fixed[16]", r"fixed\[16\] have no distribution"),
    "nothing": ("int", "no column 'nothing'"),
    "C": ("int", "no column 'C'"),
}


@pytest.mark.parametrize("column", REFUSED)
def test_columns_without_a_distribution_are_refused_with_the_reason(column: str) -> None:
    kind, reason = REFUSED[column]
    names = {"address.city": "address", "nothing": "c", "C": "c"}
    schema = {"type": "struct", "fields": [{"id": 1, "name": names.get(column, column), "type": kind}]}
    with pytest.raises(Invalid, match=reason):
        find_scale(schema, column)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("scale", "whole", "0")],
        [("scale", "<b>", "0")],
        [("scale", "whole", "x")],
        [("bar", "one", "1")],
        [("scale", None, "0")],
    ],
)
def test_rows_of_another_statement_are_no_distribution(rows: list[tuple[str, str | None, str]]) -> None:
    with pytest.raises(Invalid, match="no distribution"):
        read_distribution(rows)
