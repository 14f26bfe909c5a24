"""Imported definitions give the rows that the old systems give: dbt in DuckDB, a Streamer batch by batch."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from firn.pipelines import import_dbt, import_hudi, read_folder
from firn.pipelines.imported import Import

PROJECT = Path(__file__).parents[2] / "docs" / "dbt_shop"
STREAMER = """
hoodie.datasource.hive_sync.database=mart
hoodie.datasource.hive_sync.table=trip
hoodie.datasource.write.recordkey.field=trip
hoodie.datasource.write.precombine.field=seen
hoodie.streamer.source.hoodieincr.path=s3://lake/raw.db/trip
hoodie.streamer.transformer.sql=SELECT s.trip, s.seen, d.city, s.fare FROM <SRC> s JOIN dim.driver d USING (driver)
"""


@pytest.fixture
def lake() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database with the inputs."""
    with duckdb.connect() as connection:
        for statement in (
            "CREATE SCHEMA raw",
            "CREATE SCHEMA dim",
            "CREATE SCHEMA mart",
            "CREATE TABLE raw.trip (trip INT, driver INT, day DATE, status VARCHAR, fare DECIMAL(10,2), seen INT)",
            "CREATE TABLE dim.driver (driver INT, city INT)",
            "INSERT INTO dim.driver VALUES (1, 7), (2, 7), (3, 8), (5, NULL)",
        ):
            connection.execute(statement)
        yield connection


def make_trips(chance: random.Random, count: int, start: int = 0) -> list[tuple[Any, ...]]:
    """Rows with few keys, each with an ordering value of its own."""
    return [
        (
            chance.randint(1, 8),
            chance.choice([1, 2, 3, 4, None]),
            f"2026-01-0{chance.randint(1, 4)}",
            chance.choice(["paid", "canceled", None]),
            chance.choice([None, "1.50", "20.00"]),
            start + number,
        )
        for number in range(count)
    ]


def insert(lake: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    lake.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", rows)


def read_imported(lake: duckdb.DuckDBPyConnection, result: Import, folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the only table of an imported folder."""
    result.write(folder)
    (definition,) = read_folder(folder).definitions.values()
    return sort(lake.execute(definition.query.sql("duckdb")).fetchall())


def sort(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_a_dbt_model_gives_the_rows_that_dbt_gives(lake: duckdb.DuckDBPyConnection, seed: int, tmp_path: Path) -> None:
    insert(lake, "raw.trip", make_trips(random.Random(seed), 60))
    nodes = json.loads((PROJECT / "target" / "manifest.json").read_text("utf-8"))["nodes"]
    compiled = {name: nodes[f"model.shop.{name}"]["compiled_code"] for name in ("paid_trip", "driver_daily")}
    lake.execute("ATTACH ':memory:' AS shop")  # dbt's names have the database
    for schema in ("raw", "dim"):
        table = {"raw": "trip", "dim": "driver"}[schema]
        lake.execute(f"CREATE SCHEMA shop.{schema}")
        lake.execute(f"CREATE TABLE shop.{schema}.{table} AS FROM memory.{schema}.{table}")
    lake.execute("CREATE SCHEMA shop.mart")
    lake.execute(f"CREATE VIEW shop.mart.paid_trip AS {compiled['paid_trip']}")
    expected = sort(lake.execute(compiled["driver_daily"]).fetchall())
    assert read_imported(lake, import_dbt(PROJECT), tmp_path / "new") == expected
    assert expected


@pytest.mark.parametrize("seed", range(5))
def test_a_streamer_gives_the_same_rows_batch_by_batch(
    lake: duckdb.DuckDBPyConnection, seed: int, tmp_path: Path
) -> None:
    """Each batch is transformed alone, and upserts a key unless the table has a later row. Rows come in any order."""
    chance, stored = random.Random(seed), dict[int, tuple[Any, ...]]()
    rows = make_trips(chance, 60)
    chance.shuffle(rows)
    lake.execute("CREATE TABLE raw.batch AS FROM raw.trip")
    for start in range(0, 60, 12):
        lake.execute("DELETE FROM raw.batch")
        for table in ("raw.batch", "raw.trip"):
            insert(lake, table, rows[start : start + 12])
        query = "SELECT s.trip, s.seen, d.city, s.fare FROM raw.batch s JOIN dim.driver d USING (driver)"
        for row in lake.execute(query).fetchall():
            if row[0] not in stored or stored[row[0]][1] < row[1]:
                stored[row[0]] = row
    path = tmp_path / "trip.properties"
    path.write_text(STREAMER)
    assert read_imported(lake, import_hudi(path), tmp_path / "new") == sort(list(stored.values()))
    assert stored
