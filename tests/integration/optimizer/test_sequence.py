"""Tables with a sequence field: late changes lose, also to deletes that were merged long ago."""

from __future__ import annotations

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, part STRING, at INT, v STRING"
KEYS = "id BIGINT, at INT"


def keyed(server: RunningServer, worker: Worker, **more: str) -> KeyedTable:
    properties = {"firn.primary-key": "id", "firn.sequence-field": "at", **more}
    return KeyedTable(server, worker, COLUMNS, "part", **properties)


@pytest.mark.parametrize("mode", ["rewrite", "vectors", "adopt", "auto"])
def test_late_changes_lose_before_and_after_merges(server: RunningServer, worker: Worker, mode: str) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", 5, "a"), (2, "p", 5, "b"), (3, "q", 5, "c"))
    assert table.run("merge", mode=mode)["status"] == "succeeded"
    table.upsert((1, "q", 4, "late"), (2, "q", 5, "tie"))
    table.delete((3, 6), columns=KEYS)
    expected = [(1, "p", 5, "a"), (2, "q", 5, "tie")]
    assert table.rows() == expected
    assert table.run("merge", mode=mode)["status"] == "succeeded"
    assert table.rows() == table.rows(".base") == expected
    table.upsert((3, "q", 5, "late after the merged delete"))
    assert table.rows() == expected
    assert table.run("merge", mode=mode)["status"] == "succeeded"
    table.upsert((3, "q", 6, "back"))
    assert table.rows() == [*expected, (3, "q", 6, "back")]


def test_files_with_deletes_stay_until_they_are_old(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", 5, "a"))
    table.delete((2, 9), columns=KEYS)
    merged = table.run("merge")["result"]
    assert merged["cleaned_files"] == 1
    assert merged["rewritten_bytes"] > 0
    assert [row[4] for row in table.rows(".change")] == ["D"]
    server.spark.sql(f"ALTER TABLE {table.name}.base SET TBLPROPERTIES ('firn.tombstone.max-age'='0 s')")
    table.upsert((1, "p", 6, "b"))
    assert table.run("merge")["result"]["cleaned_files"] == 2
    assert table.rows(".change") == []


def test_of_two_changes_in_one_batch_the_newer_counts(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", 7, "newer"), (1, "q", 3, "older"))
    assert table.rows() == [(1, "p", 7, "newer")]
