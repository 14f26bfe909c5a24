"""Runs give the rows of the whole query, whatever was committed to their inputs, and commit once."""

from __future__ import annotations

import json

import pytest

from firn.protocol.pipeline_pins import PinRequest, Pins
from firn.protocol.pipelines import InputChanges
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
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
    trips, drivers = second.inputs
    assert (trips.table, trips.commits, drivers) == ("raw.trip", 2, InputChanges(table="raw.driver", commits=1))
    assert trips.files
    assert trips.bytes


@pytest.fixture(scope="module")
def stock(server: RunningServer) -> str:
    """A plain table with a row of each of three shops."""
    server.spark.sql("CREATE TABLE lake.raw.stock (shop INT, item STRING, n INT, note STRING) USING iceberg")
    server.spark.sql("INSERT INTO lake.raw.stock VALUES (1, 'a', 1, ''), (2, 'b', 2, ''), (3, NULL, 3, '')")
    return "raw.stock"


def count_snapshots(server: RunningServer, table: str) -> int:
    return server.spark.sql(f"SELECT * FROM lake.{table}.snapshots").count()


def test_keys_that_are_null_or_come_twice_are_refused_and_nothing_is_committed(
    server: RunningServer, stock: str
) -> None:
    runs = PinnedRuns(server, "mart.items", "SELECT item, n FROM raw.stock WHERE n < 9", [stock], key=["item"])
    with pytest.raises(Refused, match="without a key, or several of one key, such as item=None"):
        runs.run()
    assert count_snapshots(server, "mart.items.change") == 0
    server.spark.sql("UPDATE lake.raw.stock SET item = 'c' WHERE item IS NULL")
    assert runs.run().written == 3
    server.spark.sql("INSERT INTO lake.raw.stock VALUES (4, 'c', 3, '')")
    with pytest.raises(Refused, match="such as item='c'"):
        runs.run()
    assert count_snapshots(server, "mart.items.change") == 1


def test_a_change_of_a_column_that_the_query_does_not_read_commits_nothing(server: RunningServer, stock: str) -> None:
    query = "SELECT shop, sum(n) AS n FROM raw.stock GROUP BY shop"
    runs = PinnedRuns(server, "mart.shops", query, [stock], key=["shop"])
    first = runs.run()
    (summary,) = server.rows("SELECT summary['firn.pipeline.checkpoint'] FROM lake.mart.shops.change.snapshots")
    assert json.loads(summary[0])["id"] == first.checkpoint
    server.spark.sql("UPDATE lake.raw.stock SET note = 'seen'")
    second = runs.run()
    assert (second.mode, second.keys, second.written, second.snapshot_id) == ("incremental", 0, 0, None)
    assert runs.moved == {first.checkpoint: second.checkpoint}


def test_a_plain_table_is_changed_in_one_commit_and_knows_its_position(server: RunningServer, stock: str) -> None:
    runs = PinnedRuns(server, "mart.plain", "SELECT shop, n FROM raw.stock", [stock])
    first = runs.run()
    server.spark.sql("DELETE FROM lake.raw.stock WHERE shop = 1")
    second = runs.run()
    assert [result.mode for result in (first, second)] == ["full", "incremental"]
    assert server.rows("SELECT * FROM lake.mart.plain") == server.rows("SELECT shop, n FROM lake.raw.stock")
    assert count_snapshots(server, "mart.plain") == 2
    assert runs.client.tables["mart.plain"].writers.get(runs.writer).position == second.checkpoint


@pytest.mark.parametrize("key", [["shop"], []])
def test_a_query_with_new_columns_adds_them(server: RunningServer, stock: str, key: list[str]) -> None:
    """The table has a column of its own type, before the commit that fills it."""
    target = f"mart.wider_{'keyed' if key else 'plain'}"
    PinnedRuns(server, target, "SELECT shop, sum(n) AS n FROM raw.stock GROUP BY shop", [stock], key=key).run()
    more = "count(*) AS rows, max(named_struct('at', n)) AS last"
    wider = f"SELECT shop, sum(n) AS n, {more} FROM raw.stock GROUP BY shop"
    result = PinnedRuns(server, target, wider, [stock], key=key).run()
    assert (result.mode, result.unchanged) == ("full", 0)
    expected = server.rows(wider.replace("raw.", "lake.raw."))
    assert server.rows(f"SELECT * FROM lake.{target}") == expected


class OvertakenRuns(PinnedRuns):
    """Another copy of the run begins right after this one."""

    def pin(self, request: PinRequest) -> Pins:
        pins = super().pin(request)
        super().pin(request)
        return pins


@pytest.mark.parametrize("key", [["shop"], []])
def test_a_run_that_another_copy_has_overtaken_commits_nothing(
    server: RunningServer, stock: str, key: list[str]
) -> None:
    target = f"mart.overtaken_{'keyed' if key else 'plain'}"
    query = "SELECT shop, sum(n) AS n FROM raw.stock GROUP BY shop"
    with pytest.raises(Refused, match=r"superseded: .* a newer copy of writer 'pipeline:orders#mart.overtaken"):
        OvertakenRuns(server, target, query, [stock], key=key).run()
    assert count_snapshots(server, f"{target}.change" if key else target) == 0


def test_an_old_snapshot_has_the_columns_of_now(server: RunningServer) -> None:
    """A column has another name since the old snapshot, and another one its name."""
    sql = server.spark.sql
    sql("CREATE TABLE lake.raw.moved (k INT, a INT, b INT) USING iceberg")
    sql("INSERT INTO lake.raw.moved VALUES (1, 10, 100), (2, 20, 200)")
    query = "SELECT k, sum(a) AS a FROM raw.moved GROUP BY k"
    runs = PinnedRuns(server, "mart.moved", query, ["raw.moved"], key=["k"])
    runs.run()
    for before, after in (("a", "c"), ("b", "a"), ("c", "b")):
        sql(f"ALTER TABLE lake.raw.moved RENAME COLUMN {before} TO {after}")
    sql("INSERT INTO lake.raw.moved VALUES (1, 1, 5)")
    result = runs.run()
    assert (result.mode, result.reason) == ("full", "the column a of raw.moved has changed since the checkpoint")
    assert server.rows("SELECT * FROM lake.mart.moved") == [(1, 105), (2, 200)]


def test_text_that_looks_like_sql_or_a_variable_stays_text(server: RunningServer) -> None:
    """Affected values stand in the SQL of a run, and the owner's query does as well."""
    items = ["it's", "a\\b", "${env:HOME}", "line\nbreak", "x\x0012", 'q"', "`t`", ""]
    schema = "item STRING, n INT"
    server.spark.sql(f"CREATE TABLE lake.raw.texts ({schema}) USING iceberg")
    query = "SELECT item, sum(n) AS n, '${env:HOME}' AS home FROM raw.texts GROUP BY item"
    runs = PinnedRuns(server, "mart.texts", query, ["raw.texts"], key=["item"])
    create_local_frame(server.spark, [(item, 1) for item in items], schema).writeTo("lake.raw.texts").append()
    runs.run()
    create_local_frame(server.spark, [(item, 2) for item in items], schema).writeTo("lake.raw.texts").append()
    result = runs.run()
    assert (result.mode, result.keys, result.written, result.deleted) == ("incremental", len(items), len(items), 0)
    server.spark.conf.set("spark.sql.variable.substitute", "false")
    expected = sorted(((item, 3, "${env:HOME}") for item in items), key=repr)
    assert server.rows("SELECT * FROM lake.mart.texts") == expected
    server.spark.sql("INSERT INTO lake.raw.texts VALUES ('${env:HOME}', 4)")
    server.spark.conf.unset("spark.sql.variable.substitute")
    last = runs.run()
    assert (last.keys, last.written, last.deleted) == (1, 1, 0)
