"""The lineage of columns: where values come from, not which rows there are."""

from __future__ import annotations

import pytest

from firn.pipelines.lineage import trace_columns
from firn.pipelines.parsing import parse_query
from firn.protocol import pipeline_graph

SCHEMA = {
    "raw.trip": {"driver": "bigint", "day": "date", "status": "string", "fare": "decimal(10,2)", "a.b": "int"},
    "dim.driver": {"driver": "bigint", "city": "int", "home": "struct<zip:string>"},
}


def trace(query: str) -> dict[str, list[str]]:
    traced = trace_columns(parse_query(query), SCHEMA)
    return {entry.column: [f"{source.table}.{source.column}" for source in entry.sources] for entry in traced}


def test_a_column_comes_from_what_its_values_are_computed_from() -> None:
    assert trace(
        "SELECT t.driver, d.city, count(*) AS trips, sum(t.fare * d.city) AS fares, 1 AS first "
        "FROM raw.trip t JOIN dim.driver d ON t.driver = d.driver WHERE t.status <> 'x' GROUP BY t.driver, d.city"
    ) == {
        "driver": ["raw.trip.driver"],
        "city": ["dim.driver.city"],
        "trips": [],
        "fares": ["dim.driver.city", "raw.trip.fare"],
        "first": [],
    }


@pytest.mark.parametrize(
    ("query", "column", "sources"),
    [
        ("WITH c AS (SELECT fare * 2 AS f FROM raw.trip) SELECT f FROM c", "f", ["raw.trip.fare"]),
        ("SELECT x FROM (SELECT day AS x FROM (SELECT * FROM raw.trip))", "x", ["raw.trip.day"]),
        (
            "SELECT driver AS d FROM raw.trip UNION ALL SELECT city FROM dim.driver",
            "d",
            ["raw.trip.driver", "dim.driver.city"],
        ),
        ("SELECT driver, (SELECT max(city) FROM dim.driver) AS m FROM raw.trip", "m", ["dim.driver.city"]),
        (
            "SELECT rank() OVER (PARTITION BY driver ORDER BY day) AS r FROM raw.trip",
            "r",
            ["raw.trip.driver", "raw.trip.day"],
        ),
        ("SELECT home.zip AS zip FROM dim.driver", "zip", ["dim.driver.home"]),
        ("SELECT `a.b` + 1 AS c FROM raw.trip", "c", ["raw.trip.a.b"]),
        (
            "SELECT a.driver + b.driver AS s FROM dim.driver a JOIN dim.driver b ON a.city = b.driver",
            "s",
            ["dim.driver.driver"],
        ),
    ],
)
def test_a_column_is_traced_through(query: str, column: str, sources: list[str]) -> None:
    assert sorted(trace(query)[column]) == sorted(sources)


def test_a_query_whose_columns_the_text_does_not_tell_has_no_lineage() -> None:
    assert trace("SELECT x FROM raw.trip LATERAL VIEW explode(array(1, 2)) v AS x") == {}


def test_names_that_no_message_holds_are_left_out() -> None:
    long = "n" * 256
    assert trace(f"SELECT driver, day AS {long} FROM raw.trip") == {"driver": ["raw.trip.driver"]}


def test_sources_of_one_column_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses a longer list, and lineage must not keep a pipeline from being stored."""
    monkeypatch.setattr("firn.pipelines.lineage.MOST_SOURCES", 2)
    assert pipeline_graph.MOST_SOURCES == 1_000
    assert len(trace("SELECT concat(driver, day, status) AS all_of FROM raw.trip")["all_of"]) == 2
