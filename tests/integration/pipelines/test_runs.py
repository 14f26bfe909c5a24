"""Runs give the rows of the whole query, whatever was committed to their inputs, and commit once."""

from __future__ import annotations

import pytest

from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark

QUERY = """SELECT t.driver, t.day, d.city, count(*) AS trips, sum(t.fare) AS fares
FROM raw.trip t JOIN raw.driver d ON t.driver = d.driver
WHERE t.status <> 'canceled' GROUP BY t.driver, t.day, d.city"""


def test_a_first_run_creates_the_table_and_later_ones_compute_what_changed(server: RunningServer) -> None:
    sql = server.spark.sql
    sql(
        "CREATE TABLE lake.raw.trip (id BIGINT, driver INT, day DATE, status STRING, fare DECIMAL(10,2)) USING iceberg "
        "PARTITIONED BY (day) TBLPROPERTIES ('format-version'='3', 'write.update.mode'='merge-on-read', "
        "'write.delete.mode'='merge-on-read')"
    )
    sql("CREATE TABLE lake.raw.driver (driver INT, city INT) USING iceberg TBLPROPERTIES ('firn.primary-key'='driver')")
    sql(
        "INSERT INTO lake.raw.trip SELECT id, cast(id % 7 AS INT), date_add(DATE'2026-01-01', cast(id % 5 AS INT)), "
        "if(id % 11 = 0, 'canceled', 'done'), 2.5 FROM range(200)"
    )
    sql(
        "INSERT INTO lake.raw.driver.change (driver, city, _op) "
        "SELECT cast(id AS INT), cast(id % 3 AS INT), 'U' FROM range(7)"
    )
    runs = PinnedRuns(
        server, "mart.daily", QUERY, ["raw.trip", "raw.driver"], key=["driver", "day"], partitioned_by=["day"]
    )
    first = runs.run()
    assert (first.mode, first.written) == ("full", 35)
    assert runs.run().mode == "nothing"
    sql("UPDATE lake.raw.trip SET fare = 3 WHERE id = 8")
    sql("DELETE FROM lake.raw.trip WHERE driver = 2 AND day = DATE'2026-01-03'")
    sql("INSERT INTO lake.raw.driver.change (driver, city, _op) VALUES (3, 9, 'U')")
    second = runs.run()
    full = sorted(map(tuple, sql(QUERY.replace("raw.", "lake.raw.")).collect()))
    assert server.rows("SELECT driver, day, city, trips, fares FROM lake.mart.daily") == full
    assert (second.mode, second.keys, second.written, second.deleted) == ("incremental", 7, 6, 1)
