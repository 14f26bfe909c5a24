"""DuckDB adds the changes of few groups with the values that Spark gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from firn.pipelines import incremental
from firn.pipelines.group_changes import CHANGES, CURRENT, UNSURE
from optimizer.pipelines.few_groups import answer_few

QUERY = """SELECT shop, day, count(*) AS n, count(note) AS notes, sum(amount) AS total, sum(points) AS points,
min(note) AS first_note, max(at) AS latest FROM sale GROUP BY shop, day"""
COLUMNS = {
    "shop": "string",
    "day": "date",
    "amount": "decimal(18,2)",
    "points": "bigint",
    "note": "string",
    "at": "timestamp",
}
PLAN = incremental(QUERY, {"sale": COLUMNS}, key=["shop", "day"])
DAY, EARLY, LATE = dt.date(2026, 1, 5), dt.datetime(2026, 1, 5, tzinfo=dt.UTC), dt.datetime(2026, 1, 6, tzinfo=dt.UTC)
CURRENT_SCHEMA = pa.schema(
    {
        "shop": pa.string(),
        "day": pa.date32(),
        "n": pa.int64(),
        "notes": pa.int64(),
        "total": pa.decimal128(28, 2),
        "points": pa.int64(),
        "first_note": pa.string(),
        "latest": pa.timestamp("us", "UTC"),
    }
)
CHANGES_SCHEMA = pa.schema(
    {
        "g0": pa.string(),
        "g1": pa.date32(),
        "n": pa.int64(),
        "lost": pa.int64(),
        "c1": pa.int64(),
        "s2": pa.decimal128(28, 2),
        "lost2": pa.int64(),
        "gained2": pa.int64(),
        "s3": pa.decimal128(30, 0),
        "lost3": pa.int64(),
        "gained3": pa.int64(),
        "lost4": pa.string(),
        "gained4": pa.string(),
        "lost5": pa.timestamp("us", "UTC"),
        "gained5": pa.timestamp("us", "UTC"),
    }
)
ROW = {
    "shop": "a",
    "day": DAY,
    "n": 3,
    "notes": 2,
    "total": Decimal("7.50"),
    "points": 5,
    "first_note": "é",
    "latest": EARLY,
}
CHANGE = {
    "g0": "a",
    "g1": DAY,
    "n": 1,
    "lost": 0,
    "c1": 1,
    "s2": Decimal("0.25"),
    "lost2": 0,
    "gained2": 1,
    "s3": Decimal(2),
    "lost3": 0,
    "gained3": 1,
    "lost4": None,
    "gained4": "z",
    "lost5": None,
    "gained5": LATE,
}


def add(rows: list[dict[str, Any]], changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    built = PLAN.group_changes({"sale"})
    assert built is not None
    relations = {
        CHANGES: pa.Table.from_pylist(changes, CHANGES_SCHEMA),
        CURRENT: pa.Table.from_pylist(rows, CURRENT_SCHEMA),
    }
    added = answer_few(built.maintained, relations)
    assert added.select(CURRENT_SCHEMA.names).cast(CURRENT_SCHEMA).schema == CURRENT_SCHEMA
    found: list[dict[str, Any]] = added.to_pylist()
    return found


def test_a_gained_row_is_added() -> None:
    (row,) = add([ROW], [CHANGE])
    new = {"n": 4, "notes": 3, "total": Decimal("7.75"), "points": 7, "first_note": "z", "latest": LATE}
    assert row == {**ROW, **new, UNSURE: False}  # byte by byte, z comes before é


def test_a_new_group_begins_and_an_empty_one_ends() -> None:
    assert [row["n"] for row in add([], [CHANGE])] == [1]
    gone = {"n": -3, "lost": 3, "c1": -2, "s2": Decimal("-7.50"), "lost2": 3, "gained2": 0, "gained4": None}
    assert add([ROW], [{**CHANGE, **gone, "s3": Decimal(-5), "lost3": 3, "gained3": 0, "gained5": None}]) == []


@pytest.mark.parametrize(
    "doubt",
    [
        {"s3": Decimal(2**63 - 5)},  # the sum leaves its type
        {"lost": 1, "n": 0, "lost5": EARLY, "gained5": None},  # the latest has gone
        {"lost": 4, "n": -3},  # more rows than the group had
    ],
)
def test_groups_in_doubt_are_unsure(doubt: dict[str, Any]) -> None:
    (row,) = add([ROW], [{**CHANGE, **doubt}])
    assert row[UNSURE]


def test_sql_that_duckdb_refuses_is_an_error_of_duckdb() -> None:
    with pytest.raises(duckdb.Error):
        answer_few("SELECT no_such_function(1)", {})


def test_no_file_can_be_read() -> None:
    with pytest.raises(duckdb.Error):
        answer_few("SELECT * FROM '/etc/passwd'", {})
