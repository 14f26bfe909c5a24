"""`firn pipeline test --compare`: the rows that a table would have, and those of an existing table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from firn.errors import Invalid
from firn.spark.table_comparison import Comparison, ComparisonOptions, compare_tables
from tests.command_line import Command
from tests.spark_fixtures import RunningServer, shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
INPUTS = (
    "CREATE TABLE lake.raw.trip (driver BIGINT, day DATE, status STRING, fare DECIMAL(10,2)) USING iceberg",
    "CREATE NAMESPACE lake.dim",
    "CREATE TABLE lake.dim.driver (driver BIGINT, city INT) USING iceberg TBLPROPERTIES ('firn.primary-key'='driver')",
    "INSERT INTO lake.raw.trip VALUES (1, DATE'2026-01-05', 'paid', 10), (2, DATE'2026-01-05', 'paid', 7)",
    "INSERT INTO lake.raw.trip VALUES (3, DATE'2026-01-05', 'paid', 1)",
    "INSERT INTO lake.dim.driver.change (driver, city, _op) VALUES (1, 7, 'U'), (2, 8, 'U'), (3, 8, 'U')",
)


def frame(text: str, columns: str = "k, v") -> DataFrame:
    return shared_spark().sql(f"SELECT * FROM VALUES {text} AS t({columns})")


def counts(result: Comparison) -> tuple[int, int, int, int]:
    return (result.equal, result.different, result.missing, result.additional)


def test_a_table_is_compared_with_an_old_one(server: RunningServer, tmp_path: Path) -> None:
    run, folder = Command(server.url), str(tmp_path / "orders")
    for statement in INPUTS:
        server.spark.sql(statement)
    assert run("pipeline", "init", folder).code == 0
    server.spark.sql(
        "CREATE TABLE lake.mart.old USING iceberg AS SELECT t.driver, day, city, count(*) AS trips, sum(fare) AS fares"
        ", 'x' AS _hoodie_file_name FROM lake.raw.trip t JOIN lake.dim.driver d ON t.driver = d.driver GROUP BY ALL"
    )
    command = ("pipeline", "test", folder, "--compare", "mart.old", "--table", "driver_daily")
    equal = run(*command)
    assert (equal.code, "not compared: _hoodie_file_name" in equal.out) == (0, True), equal
    server.spark.sql("DELETE FROM lake.mart.old WHERE driver = 2")
    server.spark.sql("UPDATE lake.mart.old SET city = 9 WHERE driver = 1")
    server.spark.sql("INSERT INTO lake.mart.old VALUES (4, DATE'2026-01-05', 1, 1, 1, 'x')")
    differing = run(*command)
    assert differing.code == 1
    assert "  driver 1, day 2026-01-05: city 9 -> 7" in differing.out.splitlines()
    document = run(*command, "--json").json
    assert {kind: document[kind] for kind in ("equal", "different", "missing", "additional")} == {
        "equal": 1,
        "different": 1,
        "missing": 1,
        "additional": 1,
    }
    assert document["examples"]["missing"][0]["driver"] == "4"
    # A table that reads another one of the folder: both are computed.
    assert run("pipeline", "test", folder, "--compare", "mart.old", "--table", "city_rank", "--json").code == 1
    assert "no table" in run("pipeline", "test", folder, "--compare", "mart.old", "--table", "nothing").err
    assert "say --table" in run("pipeline", "test", folder, "--compare", "mart.old").err
    assert run("pipeline", "test", folder, "--compare", "mart.nothing", "--table", "city_rank").code == 1
    assert not server.spark.catalog.tableExists("lake.mart.driver_daily")


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("(1, 1), (2, 2)", "(2, 2), (1, 1)", (2, 0, 0, 0)),
        ("(1, null)", "(1, null)", (1, 0, 0, 0)),
        ("(1, null)", "(1, 0)", (0, 1, 0, 0)),
        ("(null, 1)", "(null, 1)", (1, 0, 0, 0)),
        ("(1, 1)", "(1, 1), (1, 1)", (1, 0, 1, 0)),
        ("(1, 1), (1, 2)", "(1, 2), (1, 1)", (2, 0, 0, 0)),
        ("(1, 0.1D + 0.2D)", "(1, 0.3D)", (1, 0, 0, 0)),
        ("(1, 0.3D)", "(1, 0.300001D)", (0, 1, 0, 0)),
        ("(1, double('NaN')), (2, 0D)", "(1, double('NaN')), (2, -0D)", (2, 0, 0, 0)),
        ("(1, double('Infinity'))", "(1, 1D)", (0, 1, 0, 0)),
        ("(1, double('NaN'))", "(1, 1D)", (0, 1, 0, 0)),
        ("(1, null)", "(1, 1D)", (0, 1, 0, 0)),
        ("(null, 1), (2, 2)", "(null, 1), (2, 2)", (2, 0, 0, 0)),
        ("(1L, 1.50BD)", "(1, 1.5BD)", (1, 0, 0, 0)),
        ("(1, map('a', 1))", "(1, map('a', 1))", (1, 0, 0, 0)),
        ("(1, array(1))", "(1, array(2))", (0, 1, 0, 0)),
    ],
)
def test_rows_are_found_by_the_key(new: str, old: str, expected: tuple[int, ...]) -> None:
    assert counts(compare_tables(frame(new), frame(old), ComparisonOptions(key=["K"]))) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("(1, 1), (1, 1), (2, 2)", "(1, 1), (2, 3)", (1, 0, 1, 2)),
        ("(1, 0.1D + 0.2D)", "(1, 0.3D)", (1, 0, 0, 0)),
        ("(1, null)", "(1, null)", (1, 0, 0, 0)),
    ],
)
def test_without_a_key_rows_are_counted(new: str, old: str, expected: tuple[int, ...]) -> None:
    assert counts(compare_tables(frame(new), frame(old), ComparisonOptions())) == expected


def test_columns_of_one_side_are_named_and_examples_are_few() -> None:
    new, old = frame("(1, 1), (2, 2), (3, 3)", "k, v"), frame("(1, 1)", "K, w")
    result = compare_tables(new, old, ComparisonOptions(key=["k"], examples=1))
    assert (result.only_old, result.only_new, counts(result)) == (("w",), ("v",), (1, 0, 0, 2))
    assert len(result.examples["additional"]) == 1
    with pytest.raises(Invalid, match="no column in common"):
        compare_tables(frame("(1, 1)", "a, b"), old, ComparisonOptions())
    with pytest.raises(Invalid, match="key column v"):
        compare_tables(new, old, ComparisonOptions(key=["v"]))


def test_a_wider_tolerance_takes_larger_differences() -> None:
    new, old = frame("(1, 100D), (2, 100D)"), frame("(1, 100.4D), (2, 102D)")
    assert counts(compare_tables(new, old, ComparisonOptions(key=["k"], tolerance=0.01))) == (1, 1, 0, 0)
