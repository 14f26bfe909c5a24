"""What Hive-side writers do to a table without a key: after each sync both sides return the same rows."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import Command
from tests.fingerprints import fingerprint
from tests.hive_engine import Rows
from tests.hive_lake import HiveTable, Side

pytestmark = [pytest.mark.hive, pytest.mark.spark]


def check_synced(table: HiveTable, message: str, *, everything: bool = False) -> None:
    assert table.sync(everything=everything)["message"] == message
    assert table.rows() == table.hive_rows()
    assert table.ask_sync()["outcome"] == "unchanged"


def test_everything_that_hive_does_to_partitions_is_taken_over(side: Side) -> None:
    table = side.table(
        "id BIGINT, v STRING", "p STRING, n INT", "VALUES (1, 'a', 'x', 1), (2, 'b', 'y y/ü', 2)"
    ).upgrade()
    table.insert("VALUES (3, 'c', 'x', 1), (4, 'd', NULL, 3)")
    check_synced(table, "partitions new files: 1, new: 1")
    table.insert("VALUES (5, 'e', 'x', 1)", how="OVERWRITE")
    table.alter("DROP PARTITION (p='y y/ü', n=2)")
    check_synced(table, "partitions rewritten or moved: 1, dropped: 1")
    place = side.directory / f"{table.short} outside"
    shutil.copytree(table.path / "p=x" / "n=1", place)
    table.alter(f"ADD PARTITION (p='new', n=4) LOCATION 'file:{place}'")
    table.alter("ADD PARTITION (p='empty', n=5)")
    check_synced(table, "partitions new: 2")
    pq.write_table(pa.table({"ID": pa.array([9], pa.int64()), "V": ["mixed case"]}), place / "dropped in.parquet")
    table.alter("ADD COLUMNS (added STRUCT<a: INT, b: ARRAY<STRING>>)")
    side.hive.sql(f"INSERT INTO {table.name} VALUES (10, 'f', named_struct('a', 1, 'b', array('q')), 'x', 1)")
    check_synced(table, "added column added struct<a:int,b:array<string>>; partitions new files: 2", everything=True)


def test_a_table_without_partitions_is_overwritten_and_truncated(side: Side) -> None:
    table = side.table("id BIGINT, v STRING", "", "VALUES (1, 'a')").upgrade()
    table.insert("VALUES (2, 'b'), (3, 'c')", how="OVERWRITE")
    check_synced(table, "partitions rewritten or moved: 1")
    for path in table.path.glob("part-*"):
        path.unlink()
    check_synced(table, "partitions rewritten or moved: 1")
    assert table.rows() == []


def test_rows_that_firn_added_stay_and_two_syncs_at_once_do_no_harm(side: Side) -> None:
    table = side.table("id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x')").upgrade()
    side.hive.sql(f"INSERT INTO lake.{table.name} VALUES (9, 'firn', 'x')")
    table.insert("VALUES (2, 'b', 'x')", how="OVERWRITE")
    table.ask_sync()
    table.insert("VALUES (3, 'c', 'x')")
    with ThreadPoolExecutor(3) as threads:
        outcomes = list(threads.map(lambda _: table.ask_sync(), range(3)))
    assert any(outcome["message"] == "partitions new files: 1" for outcome in outcomes)
    assert not any(outcome["conflict"] for outcome in outcomes)
    assert table.rows() == [(2, "b", "x"), (3, "c", "x"), (9, "firn", "x")]


def test_files_that_both_sides_changed_are_a_conflict_that_is_told(side: Side) -> None:
    table = side.table("id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x'), (2, 'b', 'y')").upgrade()
    side.hive.sql(f"DELETE FROM lake.{table.name} WHERE p = 'x'")
    table.insert("VALUES (3, 'c', 'x')", how="OVERWRITE")
    outcome = table.ask_sync()
    assert outcome["conflict"]
    assert "changed here too" in outcome["message"]
    shown = side.server.get(f"catalogs/lake/hive/{table.name}")
    assert shown["drift"] == outcome["message"]
    assert table.rows() == [(2, "b", "y")]
    packed = side.server.http.post(f"/api/v1/catalogs/lake/tables/{table.name}/jobs", json={"kind": "rewrite"})
    assert packed.status_code == 400
    assert "files that Hive lists" in packed.json()["error"]["message"]


def test_what_engines_wrote_to_a_table_without_a_key_is_published_and_given_back(side: Side) -> None:
    table = side.table(
        "id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')"
    ).upgrade()
    before, lake = fingerprint(table.path), f"lake.{table.name}"
    side.hive.sql(
        f"ALTER TABLE {lake} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')",
        f"DELETE FROM {lake} WHERE id = 1",  # by position: the file stays
        f"INSERT INTO {lake} VALUES (4, 'mine', 'x'), (5, 'mine', 'new')",
        f"ALTER TABLE {lake} ADD COLUMN own STRING",
        f"ALTER TABLE {lake} RENAME COLUMN v TO renamed",
    )
    assert table.publish()["result"]["switched"] == 2
    expected: Rows = [(2, "b", None, "x"), (3, "c", None, "y"), (4, "mine", None, "x"), (5, "mine", None, "new")]
    assert table.hive_rows("id, v, own, p") == table.rows("id, renamed, own, p") == expected
    assert fingerprint(table.path) == before
    assert table.ask_sync(everything=True)["outcome"] == "unchanged"
    # Engines and Hive's writers go on, in published partitions too.
    side.hive.sql(f"INSERT INTO {lake} (id, renamed, own, p) VALUES (6, 'mine', 'kept', 'x')")
    table.insert("VALUES (7, 'theirs', 'both', 'x')")
    table.sync()
    command = Command(side.server.url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(command, "hive", "downgrade", table.name, "--no-wait-for-writers", "--json")
        while not future.done():
            side.hive.work(side.server.url)
    assert future.result().code == 0, future.result().err
    expected += [(6, "mine", "kept", "x"), (7, "theirs", "both", "x")]
    assert table.hive_rows("id, v, own, p") == expected
