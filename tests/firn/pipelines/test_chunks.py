"""Conditions of backfills: what they may say, and that chunks hold each row of one exactly once."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest

from firn.pipelines.chunks import cut_condition
from firn.pipelines.conditions import parse_condition
from firn.pipelines.errors import InvalidDefinition

TODAY = dt.date(2026, 4, 1)
TYPES = {"driver": "long", "day": "date", "city": "string"}
SCOPE = list(TYPES)


def cut(where: str, count: int | None = None) -> list[str]:
    return cut_condition(parse_condition(where, SCOPE), TYPES, count, TODAY)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "cannot be parsed|no condition|no query"),
        ("day >", "cannot be parsed"),
        ("fares > 1", "fares is no column of the table's scope"),
        ("dayy > '2026-01-01'", "dayy is no column"),
        ("t.day > '2026-01-01'", "t.day is no column"),
        ("driver IN (SELECT id FROM dim.driver)", "reads other rows"),
        ("EXISTS (SELECT 1 FROM dim.driver)", "reads other rows"),
        ("sum(driver) > 1", "reads other rows"),
        ("row_number() OVER (ORDER BY day) < 5", "reads other rows"),
        ("explode(array(driver)) = 1", "reads other rows"),
        ("day > current_date()", "another value in each run"),
        ("rand() < 0.5", "another value in each run"),
        ("reflect('java.lang.Runtime', 'exit') = 1", "calls Java code"),
        ("my_function(day) = 1", "no function of Spark"),
        ("day > :since", "has no value|cannot be parsed"),
        ("driver = 1) AS c, (SELECT 2", "cannot be parsed|no condition|reads other rows"),
        ("driver = 1) AS c FROM secret.salary --", "no condition|cannot be parsed"),
        ("true) FROM a, b WHERE (true", "no condition|cannot be parsed"),
        ("driver = 1; DROP TABLE x", "cannot be parsed|several statements"),
        ("{{ day }} = 1", "Jinja"),
        ("driver = 'a", "does not end"),
        ("(" * 400 + "driver = 1" + ")" * 400, "nests too deeply|parts|cannot"),
        (" OR ".join(["driver = 1"] * 400), "more than 1,000 parts"),
    ],
)
def test_what_is_no_condition_over_the_scope_is_refused(where: str, reason: str) -> None:
    with pytest.raises(InvalidDefinition, match=reason):
        parse_condition(where, SCOPE)


def test_a_refusal_has_its_place_in_the_text() -> None:
    with pytest.raises(InvalidDefinition, match="line 1, column 17: fares is no column"):
        parse_condition("driver = 1 AND (fares > 2)", SCOPE)
    with pytest.raises(InvalidDefinition, match="line 2, column 5: fares is no column"):
        parse_condition("driver = 1\nAND fares > 2", SCOPE)


def test_functions_that_the_owner_vouches_for_are_allowed() -> None:
    assert "MY_FUNCTION" in parse_condition("my_function(city) = 'a'", SCOPE, ["my_function"]).sql.upper()


@pytest.mark.parametrize(
    ("where", "count", "chunks"),
    [
        ("day BETWEEN '2026-01-01' AND '2026-03-31'", None, 90),
        ("day >= DATE '2026-01-01' AND driver > 3", None, 91),  # up to today
        ("day BETWEEN '2020-01-01' AND '2026-03-31'", None, 100),
        ("day BETWEEN '2026-01-01' AND '2026-03-31'", 3, 3),
        ("'2026-01-01' <= day AND '2026-01-02' >= day", None, 2),
        ("driver BETWEEN -5 AND 4", None, 10),
        ("city IN ('a', 'b', 'c')", None, 3),
        ("driver IN (1, driver)", None, 8),
        ("city = 'a'", None, 1),
        ("city = 'a'", 4, 4),
        ("city > 'a'", None, 8),
        ("driver > 5", None, 8),
        ("day > 'soon' AND day < 'later'", None, 8),
        ("day = '2026-01-01' OR driver = 1", None, 8),
        ("NOT day BETWEEN '2026-01-01' AND '2026-03-31'", None, 8),
        ("day BETWEEN '2026-03-31' AND '2026-01-01'", None, 8),
    ],
)
def test_a_condition_is_cut_by_ranges_lists_or_a_hash(where: str, count: int | None, chunks: int) -> None:
    assert len(cut(where, count)) == chunks


def test_ranges_are_open_at_the_ends() -> None:
    """Then the guess of the bounds decides about balance alone."""
    assert cut("day BETWEEN '2026-01-01' AND '2026-01-04'", 2) == [
        "`day` < DATE '2026-01-03'",
        "`day` >= DATE '2026-01-03'",
    ]


@pytest.mark.parametrize(
    "where",
    [
        "day BETWEEN '2026-01-01' AND '2026-03-31'",
        "day > '2026-01-05'",
        "driver BETWEEN -3 AND 8 AND city <> 'b'",
        "city IN ('a', 'b') AND driver < 5",
        "driver BETWEEN 2 AND 3 AND day >= '2026-02-01' AND day < '2026-02-03'",
        "day >= '2026-01-01' AND NOT (day < '2026-02-01' AND driver > 2)",
    ],
)
@pytest.mark.parametrize("count", [None, 1, 2, 5, 40])
def test_each_row_is_in_one_chunk_exactly(where: str, count: int | None) -> None:
    with duckdb.connect() as connection:
        drivers = "SELECT unnest(list_append(range(-5, 12), NULL)) AS driver"
        days = (
            "SELECT unnest(list_append(range(DATE '2025-12-20', DATE '2026-06-01', INTERVAL 1 DAY), NULL))::DATE AS day"
        )
        cities = "SELECT unnest([NULL, 'a', 'b', 'c']) AS city"
        connection.execute(f"CREATE TABLE t AS SELECT * FROM ({drivers}), ({days}), ({cities})")
        selected = " + ".join(f"CASE WHEN {chunk.replace('`', '')} THEN 1 ELSE 0 END" for chunk in cut(where, count))
        counts = connection.execute(f"SELECT DISTINCT {selected} FROM t WHERE {where}").fetchall()
    assert counts == [(1,)]
