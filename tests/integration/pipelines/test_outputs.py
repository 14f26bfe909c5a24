"""Tables without a key on a real server: incremental overwrites, appends of new rows of streams, and their refusals."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from optimizer.errors import Refused
from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark]
NUMBERS = count(1)


class Streamed:
    """Inputs `raw.s_N`, plain or keyed, and `raw.d_N`; a table `mart.t_N` of a query over both."""

    def __init__(self, server: RunningServer, query: str, *, keyed: bool = False, **definition: Any) -> None:
        number = next(NUMBERS)
        self.server, self.s, self.d, self.target = server, f"raw.s_{number}", f"raw.d_{number}", f"mart.t_{number}"
        key = " TBLPROPERTIES ('firn.primary-key' = 'id')" if keyed else " TBLPROPERTIES ('format-version' = '3')"
        self.keyed = keyed
        self.sql(f"CREATE TABLE lake.{self.s} (id INT, k INT, note STRING) USING iceberg{key}")
        self.sql(f"CREATE TABLE lake.{self.d} (k INT, city INT) USING iceberg")
        self.query = query.format(s=self.s, d=self.d)
        inputs = [name for name in (self.s, self.d) if name in self.query]
        streams = definition.pop("streams", None)
        if streams is not None:
            definition |= {"mode": "append", "streams": [{"table": self.s, **streams}]}
        self.runs = PinnedRuns(server, self.target, self.query, inputs, **definition)

    def sql(self, text: str) -> None:
        self.server.spark.sql(text)

    def add(self, *rows: tuple[int, int], op: str = "U") -> None:
        values = ", ".join(f"({number}, {k}, 'n'{f', {op!r}' if self.keyed else ''})" for number, k in rows)
        name = f"{self.s}.change (id, k, note, _op)" if self.keyed else self.s
        self.sql(f"INSERT INTO lake.{name} VALUES {values}")

    def rows(self) -> list[tuple[Any, ...]]:
        return self.server.rows(f"SELECT * FROM lake.{self.target}")

    def full(self) -> list[tuple[Any, ...]]:
        return self.server.rows(self.query.replace("raw.", "lake.raw."))

    def files(self) -> set[str]:
        return {row[0] for row in self.server.rows(f"SELECT file_path FROM lake.{self.target}.data_files")}


GROUPS = "SELECT k, count(*) AS n FROM {s} GROUP BY k"
JOINED = "SELECT s.id, d.city FROM {s} s JOIN {d} d ON s.k = d.k"


def test_a_table_without_a_key_gets_only_what_differs(server: RunningServer) -> None:
    table = Streamed(server, GROUPS, partitioned_by=["k"])
    table.add((1, 1), (2, 2), (3, 3))
    assert table.runs.run().mode == "full"
    before = table.files()
    table.add((4, 1))
    table.sql(f"DELETE FROM lake.{table.s} WHERE k = 3")
    result = table.runs.run()
    assert (result.mode, result.written, result.unchanged, result.deleted) == ("incremental", 1, 0, 2)
    assert table.rows() == table.full()
    assert len(before & table.files()) == 1, "the file of an unaffected value stays"
    table.sql(f"UPDATE lake.{table.s} SET id = id + 10")
    result = table.runs.run()
    assert (result.written, result.deleted, result.snapshot_id) == (0, 0, None)
    assert table.runs.run(full=True).snapshot_id is None, "a full run compares, too"
    table.sql(f"INSERT INTO lake.{table.target} VALUES (9, 9)")
    assert (table.runs.run(full=True).deleted, table.rows()) == (1, table.full())


def test_rows_of_a_table_without_a_key_may_be_equal(server: RunningServer) -> None:
    table = Streamed(server, "SELECT k, note FROM {s}")
    table.add((1, 1), (2, 1), (3, 2))
    table.runs.run()
    table.add((4, 1))
    assert (table.runs.run().written, table.rows()) == (1, table.full())
    table.sql(f"DELETE FROM lake.{table.s} WHERE id IN (1, 2)")
    assert (table.runs.run().deleted, table.rows()) == (2, table.full())


@pytest.mark.parametrize("kind", ["plain", "keyed"])
def test_new_rows_of_a_stream_are_appended_once(server: RunningServer, kind: str) -> None:
    table = Streamed(server, JOINED, keyed=kind == "keyed", streams={})
    table.sql(f"INSERT INTO lake.{table.d} VALUES (1, 10), (2, 20)")
    table.add((1, 1), (2, 2))
    assert (table.runs.run().mode, table.rows()) == ("full", [(1, 10), (2, 20)])
    table.add((3, 1))
    table.sql(f"UPDATE lake.{table.d} SET city = 11 WHERE k = 1")
    result = table.runs.run()
    assert (result.mode, result.written, result.deleted) == ("append", 1, 0)
    assert table.rows() == [(1, 10), (2, 20), (3, 11)], "rows that were appended before stay as they are"
    table.sql(f"INSERT INTO lake.{table.d} VALUES (3, 30)")
    assert (table.runs.run().written, table.runs.run().mode) == (0, "nothing")


@pytest.mark.parametrize("kind", ["plain", "keyed"])
def test_a_changed_row_of_a_stream_fails_the_run(server: RunningServer, kind: str) -> None:
    table = Streamed(server, "SELECT id, k FROM {s}", keyed=kind == "keyed", streams={})
    table.add((1, 1), (2, 2))
    table.runs.run()
    if table.keyed:
        table.add((1, 7), (3, 3))
    else:
        table.sql(f"UPDATE lake.{table.s} SET k = 7 WHERE id = 1")
        table.add((3, 3))
    with pytest.raises(Refused, match=r"rows of the stream raw\.s_\d+ were changed or deleted.*id=1.*skip_changes"):
        table.runs.run()
    assert table.rows() == [(1, 1), (2, 2)]
    table.runs.definition["streams"][0]["skip_changes"] = True
    assert (table.runs.run().written, table.rows()) == (1, [(1, 1), (2, 2), (3, 3)])


def test_an_append_from_an_empty_stream_with_skipped_changes(server: RunningServer) -> None:
    table = Streamed(server, "SELECT id, k FROM {s}", streams={"skip_changes": True})
    table.runs.run()
    table.add((1, 1))
    table.sql(f"DELETE FROM lake.{table.s} WHERE id = 1")
    table.add((2, 2))
    assert (table.runs.run().written, table.rows()) == (2, [(1, 1), (2, 2)])


def test_only_a_user_replaces_rows_that_were_appended(server: RunningServer) -> None:
    """Rows that the inputs no longer have would be lost."""
    table = Streamed(server, "SELECT id, k FROM {s}", streams={"skip_changes": True})
    table.add((1, 1))
    table.runs.run()
    table.sql(f"DELETE FROM lake.{table.s} WHERE id = 1")
    table.add((2, 2))
    table.runs.checkpoints.clear()
    with pytest.raises(Refused, match=r"cannot tell which rows of its streams are new.*--full"):
        table.runs.run()
    assert table.rows() == [(1, 1)]
    table.runs.run(full=True)
    assert table.rows() == [(2, 2)]
