"""What a user types, from `put` to the rows: the commands of docs/pipelines.md against a server and an optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import firn
from tests.command_line import Command
from tests.integration.keyed.supervisor import working
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

INPUTS = (
    "CREATE TABLE lake.raw.trip (driver BIGINT, day DATE, status STRING, fare DECIMAL(10,2)) USING iceberg",
    "CREATE NAMESPACE lake.dim",
    "CREATE TABLE lake.dim.driver (driver BIGINT, city INT) USING iceberg TBLPROPERTIES ('firn.primary-key'='driver')",
    "INSERT INTO lake.raw.trip VALUES (1, DATE'2026-01-05', 'paid', 10), (1, DATE'2026-01-06', 'paid', 4)",
    "INSERT INTO lake.raw.trip VALUES (2, DATE'2026-01-05', 'paid', 7), (2, DATE'2026-01-05', 'canceled', 99)",
    "INSERT INTO lake.dim.driver.change (driver, city, _op) VALUES (1, 7, 'U'), (2, 8, 'U')",
)
DAILY = (
    "SELECT t.driver, t.day, d.city, count(*) AS trips, sum(t.fare) AS fares FROM lake.raw.trip t "
    "JOIN lake.dim.driver d ON t.driver = d.driver WHERE t.status <> 'canceled' GROUP BY t.driver, t.day, d.city"
)


@pytest.fixture
def folder(server: RunningServer, tmp_path: Path) -> Iterator[Path]:
    for statement in INPUTS:
        server.spark.sql(statement)
    assert Command(server.url)("pipeline", "init", str(tmp_path / "orders")).code == 0
    with working(server.url):
        yield tmp_path / "orders"


def read(server: RunningServer, table: str) -> list[tuple[object, ...]]:
    """The merged rows, read without Spark."""
    with firn.connect(server.url, catalog="lake") as client:
        rows: pa.Table = client.scan(table).to_arrow()
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_a_folder_becomes_tables_that_follow_their_inputs(server: RunningServer, folder: Path) -> None:
    run = Command(server.url)
    assert run("pipeline", "put", str(folder), "--dry-run").out.startswith("orders would be at version 1")
    assert run("pipeline", "put", str(folder), "--json").json["version"] == 1
    first = run("pipeline", "run", "orders", "driver_daily", "--json")
    assert (first.code, first.json["result"]["mode"]) == (0, "full"), first
    assert read(server, "mart.driver_daily") == server.rows(DAILY)
    for statement in (
        "INSERT INTO lake.raw.trip VALUES (2, DATE'2025-06-01', 'paid', 3)",  # it comes months late
        "DELETE FROM lake.raw.trip WHERE driver = 1 AND day = DATE'2026-01-06'",
        "INSERT INTO lake.dim.driver.change (driver, city, _op) VALUES (1, 9, 'U')",
    ):
        server.spark.sql(statement)
    assert "behind" in run("pipeline", "show", "orders").out
    (planned,) = run("pipeline", "plan", str(folder), "driver_daily", "--analyze", "--json").json["tables"]
    assert (planned["mode"], [entry["commits"] for entry in planned["inputs"]]) == ("incremental", [2, 1])
    assert planned["inputs"][1]["rows"] == 1
    assert planned["inputs"][0]["terms"] == [
        "driver, day are read from its changed rows; if it alone has changed, its changes are added to counts and sums"
    ]
    second = run("pipeline", "run", "orders", "driver_daily")
    assert second.code == 0, second
    assert "mode              incremental" in second.out
    assert "3 affected values: 2 rows written, 0 left out (unchanged), 1 deleted" in second.out
    assert read(server, "mart.driver_daily") == server.rows(DAILY)
    check_backfill(server, run)
    for table in ("city_daily", "city_rank"):
        assert run("pipeline", "run", "orders", table).code == 0
    assert [row[2:] for row in read(server, "mart.city_rank")] == [(1, 2), (2, 1), (1, 2)]  # trips and place
    states = {table["name"]: table["state"] for table in run("pipeline", "show", "orders", "--json").json["tables"]}
    assert states == dict.fromkeys(("mart.driver_daily", "mart.city_daily", "mart.city_rank"), "current")
    assert [run_["result"]["mode"] for run_ in run("pipeline", "runs", "orders", "driver_daily", "--json").json] == [
        *["incremental"] * 3,
        "full",
    ]


def check_backfill(server: RunningServer, run: Command) -> None:
    """Somebody damages a row, which no change of an input repairs."""
    server.spark.sql(
        "INSERT INTO lake.mart.driver_daily.change (driver, day, city, trips, fares, _op) "
        "SELECT driver, day, city, trips, 0, 'U' FROM lake.mart.driver_daily WHERE driver = 1"
    )
    request = ("pipeline", "backfill", "orders", "driver_daily", "--where", "driver IN (1, 2)", "--chunk", "1h")
    assert "IN (2)" in run(*request, "--dry-run").out
    wrong = run("pipeline", "backfill", "orders", "driver_daily", "--where", "fares > 1")
    assert "fares is no column of the table's scope" in wrong.err
    backfill = run(*request, "--json").json
    assert (backfill["total"], backfill["chunk_seconds"]) == (2, 3600)
    for verb, status in (("pause", "paused"), ("resume", "active")):
        assert [entry["status"] for entry in run("pipeline", verb, "orders", "driver_daily", "--json").json] == [status]
    assert "has no backfill that is paused" in run("pipeline", "resume", "orders", "driver_daily").err
    first = run("pipeline", "run", "orders", "driver_daily")
    assert "0 affected values: 1 chunk of a backfill: 1 row written" in first.out
    assert run("pipeline", "run", "orders", "driver_daily", "--json").json["result"]["written"] == 0
    assert read(server, "mart.driver_daily") == server.rows(DAILY)
    assert (
        f"backfill {backfill['id']}: finished, 2 of 2 chunks" in run("pipeline", "show", "orders", "driver_daily").out
    )


def test_mistakes_end_with_what_to_do(server: RunningServer) -> None:
    run = Command(server.url)
    output = run("pipeline", "run", "nothing", "mart.t")
    assert output.code == 1
    assert "nothing" in output.err
