"""Rewrite and expire, on a real server by real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark


def keyed(server: RunningServer, worker: Worker, **more: str) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id", **more})


def paths(server: RunningServer, query: str) -> set[Path]:
    return {Path(path.removeprefix("file:")) for (path,) in server.rows(query)}


def test_small_files_become_one_and_nothing_else_changes(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    for number in range(3):
        server.spark.sql(f"INSERT INTO {table.name}.base VALUES ({number}, 'direct')")
    before = table.rows()
    job = table.run("rewrite")
    assert (job["status"], job["result"]["rewritten_files"], job["result"]["added_files"]) == ("succeeded", 3, 1)
    assert table.rows() == before
    signed = server.rows(f"SELECT summary['firn.job-id'] FROM {table.name}.base.snapshots WHERE operation = 'replace'")
    assert signed == [(job["id"],)]
    assert table.run("rewrite")["result"]["rewritten_files"] == 0


def listed_files(server: RunningServer, table: KeyedTable) -> set[Path]:
    """Everything that the stores' metadata refers to."""
    paths_in_use: set[Path] = set()
    for store in ("base", "change"):
        name = f"{table.name}.{store}"
        paths_in_use |= paths(server, f"SELECT file_path FROM {name}.all_files")
        paths_in_use |= paths(server, f"SELECT path FROM {name}.all_manifests")
        paths_in_use |= paths(server, f"SELECT manifest_list FROM {name}.snapshots")
    return paths_in_use


def test_expiry_deletes_what_only_old_snapshots_needed(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker, **{"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"})
    for value in "ab":
        table.upsert((1, value), (2, value))
        assert table.run("merge", mode="rewrite")["status"] == "succeeded"
    for key in (3, 4, 5):  # appends: each snapshot lists the manifests of all before it, and the last still needs them
        server.spark.sql(f"INSERT INTO {table.name}.base VALUES ({key}, 'direct')")
    before, old = table.rows(), listed_files(server, table)
    job = table.run("expire")
    assert job["status"] == "succeeded", job["error"]
    assert job["result"]["expired_snapshots"] > 3
    needed = listed_files(server, table)
    assert {path for path in old if path.is_file()} == needed
    assert needed < old
    assert job["result"]["deleted_files"] == len(old - needed)
    assert table.rows() == before


def test_expiry_never_deletes_outside_the_tables_own_location(
    server: RunningServer, worker: Worker, tmp_path: Path
) -> None:
    table = keyed(server, worker, **{"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"})
    server.allow(tmp_path)
    server.spark.sql(f"ALTER TABLE {table.name}.base SET TBLPROPERTIES ('write.data.path'='{tmp_path}/elsewhere')")
    table.upsert((1, "a"))
    table.run("merge", mode="rewrite")
    table.upsert((1, "b"))
    table.run("merge", mode="rewrite")
    elsewhere = set((tmp_path / "elsewhere").rglob("*.parquet"))
    assert len(elsewhere) == 2
    assert table.run("expire")["result"]["expired_snapshots"] > 0
    assert set((tmp_path / "elsewhere").rglob("*.parquet")) == elsewhere


def test_keys_that_occur_more_than_once_are_counted_and_made_one_row_each(
    server: RunningServer, worker: Worker
) -> None:
    """Rows of one key in one file and in several, equal ones too; what is pending stays pending."""
    table = KeyedTable(server, worker, "id BIGINT, v STRING, ts INT", "v", **{"firn.primary-key": "id"})
    assert table.run("keys")["result"]["keys"] == 0
    server.spark.sql(f"INSERT INTO {table.name}.base VALUES (1, 'a', 5), (1, 'b', 9), (2, 'a', 1), (3, 'a', 1)")
    server.spark.sql(f"INSERT INTO {table.name}.base VALUES (1, 'a', 7), (2, 'b', 1), (2, 'b', 1), (4, 'a', 1)")
    table.upsert((4, "a", 2))
    job = table.run("keys", resolve=True, keep_highest="ts")
    assert job["status"] == "succeeded", job["error"]
    report = job["result"]
    assert (report["keys"], report["surplus_rows"], report["removed_rows"]) == (2, 4, 4)
    first, two = sorted(report["sample"], key=lambda sample: sample["key"]["id"])
    assert (first["key"], first["rows"], len(first["files"]), two["rows"], len(two["files"])) == (
        {"id": "1"},
        3,
        3,
        3,
        2,
    )
    # Of the rows with the highest value that of the newer commit stays.
    assert table.rows(".base") == [(1, "b", 9), (2, "b", 1), (3, "a", 1), (4, "a", 1)]
    assert table.rows() == [(1, "b", 9), (2, "b", 1), (3, "a", 1), (4, "a", 2)]
