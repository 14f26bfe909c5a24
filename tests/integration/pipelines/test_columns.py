"""A pipeline fills columns of a table that others write: it sets no others, and only in rows that the table has."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import firn.spark
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark]
NUMBERS = count(1)
JOINED = "SELECT o.id, d.city, d.zone FROM {o} o JOIN {d} d ON o.k = d.k"
ALONE = "SELECT id, max(city) AS city, max(zone) AS zone FROM {d} GROUP BY id"


class Filled:
    """Orders `raw.o_N (id, k, note, city, zone)` whose city and zone come from `raw.od_N (k, id, city, zone)`."""

    def __init__(self, server: RunningServer, query: str = JOINED, *, partial: bool = True) -> None:
        number = next(NUMBERS)
        self.server, self.o, self.d = server, f"raw.o_{number}", f"raw.od_{number}"
        key = f"'firn.primary-key' = 'id'{', ' if partial else ''}" + ("'firn.partial' = 'true'" if partial else "")
        columns = "id INT, k INT, note STRING, city INT, zone STRING"
        self.sql(f"CREATE TABLE lake.{self.o} ({columns}) USING iceberg TBLPROPERTIES ({key})")
        self.sql(f"CREATE TABLE lake.{self.d} (k INT, id INT, city INT, zone STRING) USING iceberg")
        text = query.format(o=self.o, d=self.d)
        inputs = [name for name in (self.o, self.d) if name in text]
        mode: dict[str, Any] = {"mode": "columns", "columns": ["city", "zone"], "key": ["id"]}
        self.runs = PinnedRuns(server, self.o, text, inputs, **mode)

    def sql(self, text: str) -> None:
        self.server.spark.sql(text)

    def order(self, *rows: tuple[int, int, str]) -> None:
        """What the table's other writer does: it sets its own columns."""
        frame = create_local_frame(self.server.spark, list(rows), "id INT, k INT, note STRING")
        firn.spark.upsert(frame, f"lake.{self.o}", columns=["k", "note"])

    def place(self, *rows: tuple[int, int, int, str]) -> None:
        values = ", ".join(f"({k}, {order}, {city}, '{zone}')" for k, order, city, zone in rows)
        self.sql(f"INSERT INTO lake.{self.d} VALUES {values}")

    def rows(self) -> list[tuple[Any, ...]]:
        return self.server.rows(f"SELECT id, k, note, city, zone FROM lake.{self.o} ORDER BY id")


def test_only_the_filled_columns_of_affected_rows_are_written(server: RunningServer) -> None:
    table = Filled(server)
    table.order((1, 10, "a"), (2, 20, "b"), (3, 30, "c"))
    table.place((10, 0, 7, "x"), (20, 0, 8, "y"))
    first = table.runs.run()
    assert (first.mode, first.written) == ("full", 2)
    assert table.rows() == [(1, 10, "a", 7, "x"), (2, 20, "b", 8, "y"), (3, 30, "c", None, None)]
    own = table.runs.run()  # the run before has changed an input: the table itself
    assert (own.mode, own.written, own.keys, own.snapshot_id) == ("incremental", 0, 0, None)
    assert table.runs.run().mode == "nothing"
    table.order((2, 20, "new"), (4, 10, "d"))  # others go on: a changed column that nobody reads, and a new row
    table.sql(f"UPDATE lake.{table.d} SET city = 70 WHERE k = 10")
    second = table.runs.run()
    assert (second.mode, second.written) == ("incremental", 2)
    assert table.rows()[:2] == [(1, 10, "a", 70, "x"), (2, 20, "new", 8, "y")]
    assert table.rows()[3] == (4, 10, "d", 70, "x")
    table.sql(f"DELETE FROM lake.{table.d} WHERE k = 20")
    table.order((1, 30, "moved"))
    cleared = table.runs.run()
    assert (cleared.written, cleared.deleted) == (2, 0)
    assert table.rows()[:2] == [(1, 30, "moved", None, None), (2, 20, "new", None, None)]
    assert table.runs.run(full=True).written == 0


def test_rows_that_the_table_does_not_have_are_left_out(server: RunningServer) -> None:
    table = Filled(server, ALONE)
    table.place((0, 1, 7, "x"), (0, 9, 9, "z"))
    assert table.runs.run().snapshot_id is None, "others have not brought any row yet"
    table.order((1, 10, "a"), (2, 20, "b"))
    first = table.runs.run(full=True)
    assert (first.written, first.absent) == (1, 1)
    table.place((0, 2, 8, "y"), (0, 8, 8, "y"))
    result = table.runs.run()
    assert (result.mode, result.written, result.absent) == ("incremental", 1, 1)
    assert table.rows() == [(1, 10, "a", 7, "x"), (2, 20, "b", 8, "y")]
    firn.spark.delete(create_local_frame(server.spark, [(2,)], "id INT"), f"lake.{table.o}")
    table.place((0, 2, 9, "q"))
    assert (table.runs.run().absent, [row[0] for row in table.rows()]) == (1, [1]), "a deleted row does not come back"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT o.id, o.city, d.zone FROM {o} o JOIN {d} d ON o.k = d.k", "city"),
        ("SELECT o.id, 1 AS city, rand() || '' AS zone FROM {o} o", "must be computed in full"),
        ("SELECT id, max(city) AS city FROM {d} GROUP BY id", "has to give the key and the columns"),
        (ALONE, "firn.partial"),
    ],
)
def test_a_query_that_does_not_fit_fails_the_run(server: RunningServer, query: str, message: str) -> None:
    is_whole = message == "firn.partial"
    table = Filled(server, query, partial=not is_whole)
    if not is_whole:
        table.order((1, 10, "a"))
    table.place((10, 1, 7, "x"))
    with pytest.raises(Refused, match=message):
        table.runs.run()
