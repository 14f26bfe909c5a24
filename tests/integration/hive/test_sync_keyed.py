"""What Hive-side writers do to a keyed table: the view says what replaying both sides in order says."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fingerprints import fingerprint
from tests.hive_lake import HiveTable, Side, wait_until_settled

pytestmark = [pytest.mark.hive, pytest.mark.spark]
COLUMNS = "id BIGINT, v STRING"
PARTITION = "p STRING"


@pytest.fixture
def orders(side: Side) -> HiveTable:
    """Three keys in two partitions, upgraded."""
    return side.table(COLUMNS, PARTITION, "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')").upgrade("id")


def test_files_that_come_are_upserts_whichever_way_they_come(orders: HiveTable) -> None:
    orders.insert("VALUES (4, 'new', 'x'), (3, 'again', 'x')")  # no signal of the metastore tells of it
    assert orders.sync()["message"] == "partitions new files: 1"
    assert orders.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "again", "x"), (4, "new", "x")]
    assert orders.rows("_op, _source LIKE '%/p=x/%#%'", ".change") == [("U", True), ("U", True)]
    # A file that another program drops into the directory, its columns spelled in its own way, its keys repeated.
    dropped = pa.table({"V": ["old", "last"], "ID": pa.array([5, 5], pa.int64())})
    pq.write_table(dropped, orders.path / "p=y" / "[odd] name{}*.parquet")
    orders.insert("VALUES (6, 'n', NULL)")
    orders.alter("ADD COLUMNS (n INT)")
    orders.side.hive.sql(f"INSERT INTO {orders.name} VALUES (7, 'wide', 70, 'a b/ü')")
    message = orders.sync(everything=True)["message"]
    assert message == "added column n int; partitions new files: 1, new: 2"
    assert orders.rows("id, v, n, p")[3:] == [
        (4, "new", None, "x"), (5, "last", None, "y"), (6, "n", None, None), (7, "wide", 70, "a b/ü"),
    ]  # fmt: skip
    assert orders.ask_sync()["outcome"] == "unchanged"


def test_amoro_2909_an_overwritten_partition_is_rebuilt_under_the_changes_that_hive_never_saw(
    orders: HiveTable,
) -> None:
    """A sync took pending rows for done: they were written, and could not be read any more."""
    orders.change("SELECT 1, 'mine', 'x' UNION ALL SELECT 5, 'mine too', 'x' UNION ALL SELECT 3, 'moved here', 'x'")
    orders.insert("VALUES (1, 'theirs', 'x'), (9, 'theirs', 'x')", how="OVERWRITE")
    before = fingerprint(orders.path)
    assert orders.sync()["message"] == "partitions rewritten or moved: 1"
    expected = [(1, "mine", "x"), (3, "moved here", "x"), (5, "mine too", "x"), (9, "theirs", "x")]
    assert orders.rows() == orders.rows(store=".base") == expected
    # Merged by now, and cleaned: the history still says what Hive was never given.
    orders.change("SELECT 9, 'gone', 'x'", op="D")
    orders.job("merge")
    assert orders.rows(store=".change") == []
    orders.insert("VALUES (9, 'back', 'x'), (8, 'theirs', 'x')", how="OVERWRITE")
    orders.sync()
    expected = [(1, "mine", "x"), (3, "moved here", "x"), (5, "mine too", "x"), (8, "theirs", "x")]
    assert orders.rows() == orders.rows(store=".base") == expected
    # Hive's own files of the other partition are there; what it overwrote is not.
    assert fingerprint(orders.path).keys() & before.keys() == {name for name in before if not name.startswith("p=x")}


def test_rows_that_come_back_or_move_do_not_win_over_changes_made_here(orders: HiveTable) -> None:
    """An overwrite that a sync sees in two halves, and a partition that is renamed."""
    orders.change("SELECT 1, 'mine', 'x'")
    for path in (orders.path / "p=x").glob("part-*"):
        path.unlink()
    assert orders.sync(everything=True)["message"] == "partitions rewritten or moved: 1"
    assert orders.rows() == [(1, "mine", "x"), (3, "c", "y")]
    orders.insert("VALUES (1, 'theirs', 'x'), (2, 'theirs', 'x')")
    assert orders.sync(everything=True)["message"] == "partitions rewritten or moved: 1"
    assert orders.rows() == [(1, "mine", "x"), (2, "theirs", "x"), (3, "c", "y")]
    orders.alter("PARTITION (p='x') RENAME TO PARTITION (p='z')")
    assert orders.sync()["message"] == "partitions rewritten or moved: 1, dropped: 1"
    assert orders.rows() == [(1, "mine", "x"), (2, "theirs", "z"), (3, "c", "y")]


def test_files_that_are_moved_to_another_partition_under_another_name_take_no_change_away(side: Side) -> None:
    """`LOAD DATA` renames what it moves where the name is taken; its rows were taken for new ones."""
    rows = "SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')"
    table = side.table(COLUMNS, PARTITION, rows)
    x, y = table.path / "p=x", table.path / "p=y"
    for directory in (x, y):
        (file,) = directory.glob("part-*")
        file.rename(directory / "000000_0")
    table.upgrade("id")
    table.change("SELECT 1, 'mine', 'x'")
    into = f"INTO TABLE {table.name} PARTITION (p='y')"
    side.hive.sql(f"LOAD DATA INPATH 'file:{x}/000000_0' {into}")
    assert sorted(path.name for path in y.iterdir() if path.name[0] != ".") == ["000000_0", "000000_0_copy_1"]
    assert table.sync()["message"] == "partitions rewritten or moved: 2"
    assert table.rows() == [(1, "mine", "x"), (2, "b", "y"), (3, "c", "y")]
    table.change("SELECT 2, 'mine too', 'y'")
    (y / "000000_0_copy_1").rename(x / "by hand")
    table.sync(everything=True)
    assert table.rows() == [(1, "mine", "x"), (2, "mine too", "y"), (3, "c", "y")]


def test_a_dropped_partition_takes_its_rows_along_but_not_those_of_firn(orders: HiveTable) -> None:
    orders.insert("VALUES (2, 'moved by hive', 'y')")
    orders.sync()  # key 2 lives in y now
    orders.change("SELECT 4, 'mine', 'y'")
    orders.job("merge")
    orders.alter("DROP PARTITION (p='y')")
    assert orders.sync()["message"] == "partitions dropped: 1"
    assert orders.rows() == orders.rows(store=".base") == [(1, "a", "x"), (4, "mine", "y")]
    # The source of key 2's change is gone for good, whatever is rebuilt later.
    orders.insert("VALUES (1, 'rewritten', 'x'), (2, 'here again', 'x')", how="OVERWRITE")
    orders.sync()
    assert orders.rows() == [(1, "rewritten", "x"), (2, "here again", "x"), (4, "mine", "y")]


def test_new_rows_of_a_rebuilt_partition_win_keys_that_live_elsewhere(orders: HiveTable) -> None:
    orders.insert("VALUES (3, 'taken over', 'x')", how="OVERWRITE")
    orders.insert("VALUES (7, 'added beside', 'z')")
    assert orders.sync()["message"] == "partitions new: 1, rewritten or moved: 1"
    assert orders.rows() == [(3, "taken over", "x"), (7, "added beside", "z")]
    assert orders.rows(store=".base") == [(3, "taken over", "x")]  # what is only added comes after, as upserts
    # Partition y still lists key 3. When it is rebuilt, that row has lost its key already.
    pq.write_table(pa.table({"id": pa.array([8], pa.int64()), "v": ["eight"]}), orders.path / "p=y" / "more.parquet")
    orders.sync(everything=True)
    (orders.path / "p=y" / "more.parquet").unlink()
    orders.sync(everything=True)
    assert orders.rows() == orders.rows(store=".base") == [(3, "taken over", "x"), (7, "added beside", "z")]


def test_a_relocated_partition_and_one_whose_directory_vanished(orders: HiveTable) -> None:
    elsewhere = orders.side.directory / f"{orders.short} elsewhere"
    shutil.copytree(orders.path / "p=x", elsewhere)
    orders.alter(f"PARTITION (p='x') SET LOCATION 'file:{elsewhere}'")
    shutil.rmtree(orders.path / "p=y")
    assert orders.sync(everything=True)["message"] == "partitions rewritten or moved: 2"
    assert orders.rows() == orders.hive_rows() == [(1, "a", "x"), (2, "b", "x")]


def test_a_table_without_partitions_is_rebuilt_whole_by_the_sequence_field(side: Side) -> None:
    table = side.table("id INT, at TIMESTAMP, v VARCHAR(9)", "", "VALUES (1, TIMESTAMP '2026-01-01 00:00:00', 'a')")
    table.upgrade("id", sequence_field="at")
    table.change("SELECT 1, TIMESTAMP '2026-01-03 00:00:00', 'mine'")
    table.change("SELECT 2, TIMESTAMP '2026-01-03 00:00:00', ''", op="D")
    table.insert("VALUES (1, TIMESTAMP '2026-01-02 00:00:00', 'older')")
    table.sync()
    assert table.rows("id, v") == [(1, "mine")]
    table.job("merge")
    table.insert(
        "VALUES (1, TIMESTAMP '2026-01-04 00:00:00', 'newer'), (2, TIMESTAMP '2026-01-02 00:00:00', 'older'),"
        " (3, TIMESTAMP '2026-01-01 00:00:00', 'c')",
        how="OVERWRITE",
    )
    table.sync()
    assert table.rows("id, v") == table.rows("id, v", ".base") == [(1, "newer"), (3, "c")]


def test_rows_without_a_key_hold_back_their_partition_in_words_and_change_nothing(orders: HiveTable) -> None:
    orders.insert("VALUES (NULL, 'no key', 'x'), (7, 'whole', 'y')")
    outcome = orders.ask_sync()
    assert outcome["conflict"]
    assert "partition p=x is not taken over" in outcome["message"]
    assert "which no row may lack" in outcome["message"]
    assert orders.side.worked_on(outcome["job"])["status"] == "succeeded"
    assert orders.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "c", "y"), (7, "whole", "y")]
    orders.insert("VALUES (1, 'mended', 'x')", how="OVERWRITE")
    orders.sync()
    assert orders.rows() == [(1, "mended", "x"), (3, "c", "y"), (7, "whole", "y")]


def test_a_pending_sync_keeps_merges_and_other_syncs_away(orders: HiveTable) -> None:
    orders.change("SELECT 1, 'mine', 'x'")
    orders.insert("VALUES (2, 'theirs', 'x')", how="OVERWRITE")
    first = orders.ask_sync()
    refused = orders.side.server.http.post(f"/api/v1/catalogs/lake/tables/{orders.name}/jobs", json={"kind": "merge"})
    assert refused.status_code == 409
    assert "a sync job is pending" in refused.json()["error"]["message"]
    assert orders.ask_sync()["message"] == "a sync job is pending"
    orders.side.server.post(f"jobs/{first['job']['id']}/cancel")
    retried = orders.side.server.http.post(f"/api/v1/jobs/{first['job']['id']}/retry")
    assert retried.status_code == 409
    # Between the listing and the job Hive goes on: the job fails or finds less, the next one makes it good.
    stale = orders.ask_sync()
    shutil.rmtree(orders.path / "p=x")
    wait_until_settled()
    assert orders.side.worked_on(stale["job"])["status"] == "failed"
    orders.sync(everything=True)
    assert orders.rows() == [(1, "mine", "x"), (3, "c", "y")]
