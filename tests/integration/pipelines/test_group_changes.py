"""Runs add the changes of one input to counts and sums, as long as nobody else has changed the table."""

from __future__ import annotations

from itertools import count

import pytest

from firn.protocol.pipelines import RunResult
from optimizer.pipelines import computing, table_run
from optimizer.pipelines.store_files import StoreFiles
from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUERY = """SELECT t.driver, t.day, d.city, count(*) AS trips, count(t.tip) AS tipped, sum(t.fare) AS fares,
  sum(t.tip) AS tips, max(t.fare) AS best, min(t.note) AS first_note
FROM raw.{trip} t JOIN raw.driver d ON t.driver = d.driver WHERE t.status <> 'canceled'
GROUP BY t.driver, t.day, d.city"""
NUMBERS = count()
COLUMNS = "driver, day, city, trips, tipped, fares, tips, best, first_note"


@pytest.fixture(autouse=True, params=["few", "no access", "many"])
def _small_tables_take_changes(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Few rows are the driver's, many are Spark's; with few rows, Spark reads and writes what Python cannot open."""
    monkeypatch.setattr(table_run, "LEAST_ADDED_BYTES", 0)
    if request.param == "many":
        monkeypatch.setattr(computing, "MOST_FEW", 0)
    if request.param == "no access":
        for name in ("read_rows", "write_changes"):
            monkeypatch.setattr(StoreFiles, name, lambda *_: "no access")


@pytest.fixture(scope="module")
def driver(server: RunningServer) -> str:
    """A dimension of seven drivers."""
    server.spark.sql("CREATE TABLE lake.raw.driver (driver INT, city INT) USING iceberg")
    server.spark.sql("INSERT INTO lake.raw.driver SELECT cast(id AS INT), cast(id % 3 AS INT) FROM range(7)")
    return "raw.driver"


class Trips:
    """A table of trips, and the runs of the table that counts and sums them."""

    def __init__(self, server: RunningServer, name: str, driver: str) -> None:
        name = f"{name}_{next(NUMBERS)}"
        self.server, self.name, self.target = server, name, f"mart.{name}"
        self.sql(
            "CREATE TABLE {t} (id BIGINT, driver INT, day DATE, status STRING, fare DECIMAL(10,2), tip BIGINT, "
            "note STRING) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '3', "
            "'write.update.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read')"
        )
        self.sql(
            "INSERT INTO {t} SELECT id, cast(id % 7 AS INT), date_add(DATE'2026-01-01', cast(id % 5 AS INT)), "
            "if(id % 11 = 0, 'canceled', 'done'), id % 40, if(id % 3 = 0, NULL, id % 9), concat('n', id) "
            "FROM range(200)"
        )
        query, key = QUERY.format(trip=name), ["driver", "day"]
        self.runs = PinnedRuns(server, self.target, query, [f"raw.{name}", driver], key=key)
        assert self.runs.run().mode == "full"

    def sql(self, statement: str) -> None:
        self.server.spark.sql(statement.format(t=f"lake.raw.{self.name}", m=f"lake.{self.target}"))

    def run(self) -> RunResult:
        """A run, after which the table has to be right."""
        result = self.runs.run()
        full = QUERY.format(trip=self.name).replace("raw.", "lake.raw.")
        assert self.server.rows(f"SELECT {COLUMNS} FROM lake.{self.target}") == self.server.rows(full), result
        return result

    def merge(self) -> None:
        """Have an optimizer merge the changes of the target."""
        self.server.post(f"catalogs/lake/tables/{self.target}/jobs", {"kind": "merge", "options": {}})
        worker = a_worker(self.server.url)
        assert worker.work_once(worker.api.register(**worker.about).id, wait_seconds=5)


def test_changes_are_added_to_the_rows_of_the_table(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_a", driver)
    trips.sql("UPDATE {t} SET tip = tip + 3 WHERE id IN (8, 9, 10)")  # the tip of 9 is null
    updated = trips.run()
    assert (updated.keys, updated.recomputed, updated.written) == (2, 0, 2)
    trips.merge()
    trips.sql(
        "INSERT INTO {t} VALUES (900, 1, DATE'2026-03-01', 'done', 5, NULL, 'a'), (901, 9, NULL, 'done', 5, 1, 'a')"
    )
    assert trips.run().recomputed == 0
    trips.sql("DELETE FROM {t} WHERE driver = 2 AND day = DATE'2026-01-03'")
    trips.sql("UPDATE {t} SET status = 'canceled' WHERE id = 900")
    gone = trips.run()
    assert (gone.keys, gone.recomputed, gone.deleted) == (2, 0, 2)
    trips.sql("UPDATE lake.raw.driver SET city = city + 100 WHERE driver = 5")
    moved = trips.run()
    assert (moved.keys, moved.recomputed) == (5, 0)


def test_rows_are_recomputed_after_somebody_else_has_changed_the_table(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_f", driver)
    trips.sql("INSERT INTO {m}.change (driver, day, city, trips, _op) VALUES (3, DATE'2026-01-04', 9, 77, 'U')")
    trips.sql("UPDATE {t} SET fare = 1 WHERE driver = 3")
    assert trips.run().recomputed is None
    trips.sql("UPDATE {t} SET fare = 2 WHERE driver = 3")
    assert trips.run().recomputed is None  # other rows may still be wrong
    assert trips.runs.run(full=True).mode == "full"
    trips.sql("UPDATE {t} SET fare = 3 WHERE driver = 3")
    assert trips.run().recomputed == 0


def test_keys_of_text_are_found_and_compared(server: RunningServer) -> None:
    sql, name = server.spark.sql, f"paid_{next(NUMBERS)}"
    sql(f"CREATE TABLE lake.raw.{name} (shop STRING, at TIMESTAMP, note STRING) USING iceberg")
    sql(
        f"INSERT INTO lake.raw.{name} VALUES ('a', TIMESTAMP'2026-01-05 10:00', 'é'), ('b', NULL, 'x'), "
        "('c', NULL, 'y')"
    )
    query = f"SELECT shop, count(*) AS n, max(at) AS latest, min(note) AS note FROM raw.{name} GROUP BY shop"
    runs = PinnedRuns(server, f"mart.{name}", query, [f"raw.{name}"], key=["shop"])
    assert runs.run().mode == "full"
    sql(f"INSERT INTO lake.raw.{name} VALUES ('a', TIMESTAMP'2026-01-06 10:00', 'z'), ('d', NULL, NULL)")
    sql(f"DELETE FROM lake.raw.{name} WHERE shop = 'c'")
    result = runs.run()
    assert (result.keys, result.written, result.deleted) == (3, 2, 1)
    full = query.replace("raw.", "lake.raw.")
    assert server.rows(f"SELECT shop, n, latest, note FROM lake.mart.{name}") == server.rows(full)


def test_a_removed_extreme_is_looked_for_in_its_group_alone(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_b", driver)
    best = server.rows(f"SELECT id FROM lake.raw.{trips.name} WHERE driver = 1 AND day = DATE'2026-01-02'")
    assert len(best) > 1
    trips.sql("DELETE FROM {t} WHERE driver = 1 AND day = DATE'2026-01-02' AND fare > 20")
    trips.sql("INSERT INTO {t} VALUES (902, 2, DATE'2026-01-01', 'done', 500, 1, 'a')")
    result = trips.run()
    assert (result.keys, result.recomputed) == (2, 1)


def test_rows_that_were_deleted_before_are_not_gained(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_g", driver)
    trips.sql(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 3, DATE'2026-04-01', 'done', if(id < 912, 500, 1), 1, 'a' "
        "FROM range(910, 914)"
    )
    assert trips.run().recomputed == 0
    trips.sql("DELETE FROM {t} WHERE id = 910")  # another trip with this fare is left
    trips.run()
    trips.sql("DELETE FROM {t} WHERE id = 911")  # of the same file: its deletes have both trips now
    assert trips.run().recomputed == 1


def test_runs_that_change_no_row_keep_what_they_know(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_c", driver)
    trips.sql("UPDATE {t} SET status = 'DONE' WHERE id = 12")
    assert (nothing := trips.run()).snapshot_id is None, nothing
    trips.sql("UPDATE {t} SET fare = 7 WHERE id = 12")
    assert trips.run().recomputed == 0


def test_a_column_that_somebody_has_dropped_and_added_again_has_no_old_values(
    server: RunningServer, driver: str
) -> None:
    trips = Trips(server, "trip_d", driver)
    trips.sql("ALTER TABLE {m} DROP COLUMN tips")
    trips.sql("ALTER TABLE {m} ADD COLUMN tips BIGINT")
    trips.sql("UPDATE {t} SET tip = 5")
    assert trips.run().recomputed is None


def test_changes_of_two_inputs_are_recomputed_and_the_next_ones_added(server: RunningServer, driver: str) -> None:
    trips = Trips(server, "trip_e", driver)
    trips.sql("UPDATE {t} SET tip = 5 WHERE driver = 4")
    trips.sql("UPDATE lake.raw.driver SET city = city + 1 WHERE driver = 4")
    assert trips.run().recomputed is None
    trips.sql("UPDATE {t} SET tip = 6 WHERE driver = 4")
    assert trips.run().recomputed == 0


def test_a_table_that_has_rounded_the_sums_gets_no_changes(server: RunningServer) -> None:
    sql, name = server.spark.sql, f"paid_{next(NUMBERS)}"
    sql(f"CREATE TABLE lake.raw.{name} (shop INT, amount DECIMAL(10,2)) USING iceberg")
    sql(f"INSERT INTO lake.raw.{name} VALUES (1, 1.40), (2, 1.00)")
    sql(
        f"CREATE TABLE lake.mart.{name} (shop INT NOT NULL, n BIGINT, total DECIMAL(20,0)) USING iceberg "
        "TBLPROPERTIES ('firn.primary-key' = 'shop')"
    )
    query = f"SELECT shop, count(*) AS n, sum(amount) AS total FROM raw.{name} GROUP BY shop"
    runs = PinnedRuns(server, f"mart.{name}", query, [f"raw.{name}"], key=["shop"])
    assert runs.run().mode == "full"
    sql(f"INSERT INTO lake.raw.{name} VALUES (1, 1.40)")
    assert runs.run().recomputed is None
    assert [int(row[2]) for row in server.rows(f"SELECT shop, n, total FROM lake.mart.{name}")] == [3, 1]
