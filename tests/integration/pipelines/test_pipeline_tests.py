"""`firn pipeline test`: cases of a folder and random changes, in the Spark of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firn.pipelines.plan import Plan, Step
from tests.command_line import Command
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark
TIP = Path("tests") / "late_trip.yml"


@pytest.fixture
def run() -> Command:
    return Command("http://127.0.0.1:9")  # no server listens there, and none is needed


@pytest.fixture
def folder(run: Command, tmp_path: Path) -> Path:
    shared_spark()
    folder = tmp_path / "orders"
    assert run("pipeline", "init", str(folder)).code == 0
    return folder


def test_the_example_passes_and_its_plans_equal_full_computations(run: Command, folder: Path) -> None:
    done = run("pipeline", "test", str(folder), "--random", "4", "--seed", "7")
    assert done.out.splitlines() == [
        "tests/late_trip.yml  a trip that comes months later  passed",
        "1 of 1 tests passed",
        "mart.city_daily  4 rounds: incremental equals full (seed 7)",
        "mart.driver_daily  4 rounds: incremental equals full (seed 7)",
        "mart.city_rank  full: nothing to compare",
    ]
    assert done.code == 0


def test_a_failing_test_shows_the_rows_and_ends_with_1(run: Command, folder: Path) -> None:
    text = (folder / TIP).read_text().replace("trips: 2, fares: 12.50", "trips: 3, fares: 12.50")
    (folder / TIP).write_text(text)
    failed = run("pipeline", "test", str(folder))
    assert failed.code == 1
    assert "late_trip.yml  a trip that comes months later  FAILED" in failed.out
    assert "mart.driver_daily lacks 1 row:" in failed.out
    assert "0 of 1 tests passed" in failed.out
    (result,) = run("pipeline", "test", str(folder), "--json").json["tests"]
    (table, other) = result["tables"]
    assert (table["missing"][0][3], table["surplus"][0][3], other["missing"]) == ("3", "2", [])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("fare: 2.50", "fare: cheap", "cannot be cast"),
        ("fare: 2.50", "fair: 2.50", "raw.trip has no column fair"),
        ("insert:", "delete:", "raw.trip has no row"),
        ("raw.trip:", "raw.trips:", "raw.trips is no input of the pipeline"),
        ("driver_daily:", "daily:", "the pipeline makes no table mart.daily"),
    ],
)
def test_a_wrong_test_says_what_is_wrong(run: Command, folder: Path, old: str, new: str, problem: str) -> None:
    (folder / TIP).write_text((folder / TIP).read_text().replace(old, new))
    failed = run("pipeline", "test", str(folder))
    assert failed.code == 1
    assert problem in failed.out


def test_random_changes_find_a_plan_that_forgets_rows(
    run: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Plan.affected

    def forget(plan: Plan, changed: Any) -> tuple[Step, ...]:
        steps = real(plan, changed)
        return (*steps[:-1], Step(steps[-1].name, f"SELECT * FROM ({steps[-1].sql}) WHERE day > DATE '2026-01-03'"))

    monkeypatch.setattr(Plan, "affected", forget)
    (folder / TIP).unlink()
    failed = run("pipeline", "test", str(folder), "--random", "50", "--seed", "1")
    assert failed.code == 1
    assert "differs from a full computation in round" in failed.out
    assert "(seed 1)" in failed.out


def test_a_folder_without_tests_says_what_to_write(run: Command, folder: Path) -> None:
    (folder / TIP).unlink()
    refused = run("pipeline", "test", str(folder))
    assert refused.code != 0
    assert "has no tests" in refused.err


def test_python_is_tested_with_the_rest(run: Command, tmp_path: Path) -> None:
    shared_spark()
    files = {
        "spark-pipeline.yml": "name: p\ndatabase: mart\n",
        "firn-pipeline.yml": "sources: {raw.trip: {columns: {driver: bigint, fare: int}}}\n"
        "tables: {big: {transforms: [{python: 'steps:double', scope: row}]}}",
        "steps.py": "def double(spark, df, context):\n    return df.selectExpr('driver', 'fare * 2 AS fare')\n",
        "transformations/a.py": "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.active()\n@dp.materialized_view\ndef paid():\n"
        "    return spark.table('raw.trip').where('fare > 0')\n",
        "transformations/b.sql": "CREATE MATERIALIZED VIEW big AS SELECT driver, fare FROM paid WHERE fare > 5",
        "tests/t.yml": "given: {raw.trip: [{driver: 1, fare: 9}, {driver: 2, fare: 0}]}\n"
        "change: {raw.trip: {insert: [{driver: 3, fare: 7}]}}\n"
        "expect: {paid: [{driver: 1, fare: 9}, {driver: 3, fare: 7}],\n"
        "  big: [{driver: 1, fare: 18}, {driver: 3, fare: 14}]}",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    done = run("pipeline", "test", str(tmp_path))
    assert "1 of 1 tests passed" in done.out, done
