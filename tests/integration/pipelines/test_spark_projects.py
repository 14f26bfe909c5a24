"""Projects of Spark's pipelines, unchanged: that of `init` gives equal rows in Firn and in Spark's own runner."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import Command
from tests.integration.keyed.supervisor import working
from tests.integration.pipelines.spark_runner import spark_pipelines
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SPEC = """name: both
storage: {storage}
catalog: lake
database: mart
libraries:
  - glob:
      include: transformations/**
"""
SQL = """
CREATE STREAMING TABLE paid AS SELECT id, driver, fare FROM STREAM raw.trip WHERE status <> 'canceled';
CREATE STREAMING TABLE all_fare;
CREATE FLOW today AS INSERT INTO all_fare BY NAME SELECT driver, fare FROM STREAM raw.trip;
CREATE MATERIALIZED VIEW by_driver AS SELECT driver, sum(fare) AS fares, count(*) AS trips FROM paid GROUP BY driver;
CREATE MATERIALIZED VIEW high_count AS SELECT count(*) AS n FROM high;
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.temporary_view
def high() -> DataFrame:
    return spark.table("paid").where(F.col("fare") > 5)


@dp.materialized_view(comment="the highest fare of each driver")
def highest() -> DataFrame:
    return spark.table("high").groupBy("driver").agg(F.max("fare").alias("fare"))
"""
TRIPS = "VALUES (1, 1, 'paid', 10.00), (2, 1, 'paid', 4.00), (3, 2, 'canceled', 99.00), (4, 2, 'paid', 7.50)"
LATE = "VALUES (5, 3, 'paid', 6.00)"


def run_in_firn(server: RunningServer, folder: Path, pipeline: str, *tables: str) -> None:
    run = Command(server.url)
    done = run("pipeline", "put", str(folder))
    assert done.code == 0, done
    for table in tables:
        done = run("pipeline", "run", pipeline, table)
        assert done.code == 0, done


def test_the_project_of_init_runs_in_both(server: RunningServer, tmp_path: Path) -> None:
    spark_pipelines("init", "--name", "hello", folder=tmp_path, conf=tmp_path / "conf")
    spark_pipelines("run", "--remote", "local[2]", folder=tmp_path / "hello", conf=tmp_path / "conf")
    tables = ("example_python_materialized_view", "example_sql_materialized_view")
    server.spark.sql("CREATE NAMESPACE lake.default")
    with working(server.url, allow_code=True):
        run_in_firn(server, tmp_path / "hello", "hello", *tables)
    for table in tables:
        rows = pq.read_table(tmp_path / "hello" / "spark-warehouse" / table).to_pylist()
        assert server.rows(f"SELECT id FROM lake.default.{table}") == sorted((row["id"],) for row in rows)


EXPECTED = {
    "paid": "SELECT id, driver, fare FROM lake.raw.trip WHERE status <> 'canceled'",
    "all_fare": "SELECT driver, fare FROM lake.raw.trip",
    "by_driver": "SELECT driver, sum(fare), count(*) FROM lake.raw.trip WHERE status <> 'canceled' GROUP BY driver",
    "highest": "SELECT driver, max(fare) FROM lake.raw.trip WHERE status <> 'canceled' AND fare > 5 GROUP BY driver",
    "high_count": "SELECT count(*) FROM lake.raw.trip WHERE status <> 'canceled' AND fare > 5",
}


def test_a_project_with_streams_flows_and_views_in_python_follows_its_input(
    server: RunningServer, tmp_path: Path
) -> None:
    folder = tmp_path / "both"
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(tmp_path / "storage").as_uri()))
    (folder / "transformations" / "tables.sql").write_text(SQL)
    (folder / "transformations" / "views.py").write_text(PYTHON)
    server.spark.sql(
        "CREATE TABLE lake.raw.trip (id BIGINT, driver INT, status STRING, fare DECIMAL(10,2)) USING iceberg"
    )
    with working(server.url, allow_code=True):
        for rows in (TRIPS, LATE):
            server.spark.sql(f"INSERT INTO lake.raw.trip {rows}")
            run_in_firn(server, folder, "both", *EXPECTED)
    for table, query in EXPECTED.items():
        assert server.rows(f"SELECT * FROM lake.mart.{table}") == server.rows(query), table
