"""What Hive is given: its readers see what was merged, and what its writers then do is seen here."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings
from tests.command_line import Command
from tests.fingerprints import fingerprint
from tests.hive_lake import HiveTable, Side, wait_until_settled

pytestmark = [pytest.mark.hive, pytest.mark.spark]
COLUMNS = "id BIGINT, v STRING"
PARTITION = "p STRING"


@pytest.fixture
def orders(side: Side) -> HiveTable:
    """Three keys in two partitions, upgraded, and changes in one of them."""
    table = side.table(COLUMNS, PARTITION, "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')").upgrade("id")
    table.change("SELECT 1, 'mine', 'x' UNION ALL SELECT 4, 'new', 'x'")
    table.change("SELECT 2, '', 'x'", op="D")
    return table


def test_hive_sees_what_was_merged_and_its_own_files_stay_as_they_were(orders: HiveTable) -> None:
    before = fingerprint(orders.path)
    done = orders.publish()
    assert (done["result"]["partitions"], done["result"]["switched"]) == (1, 1)
    expected = [(1, "mine", "x"), (3, "c", "y"), (4, "new", "x")]
    assert orders.hive_rows() == orders.rows() == orders.rows(store=".base") == expected
    assert fingerprint(orders.path) == before
    # It is no news to the next sync, and there is nothing to publish any more.
    assert orders.ask_sync(everything=True)["outcome"] == "unchanged"
    assert orders.ask_publish()["outcome"] == "up-to-date"
    orders.change("SELECT 3, 'again', 'z'")
    assert orders.publish()["result"]["partitions"] == 2
    expected = [(1, "mine", "x"), (3, "again", "z"), (4, "new", "x")]
    assert orders.hive_rows() == orders.rows() == orders.rows(store=".base") == expected
    assert sorted(row[0] for row in orders.side.hive.sql(f"SHOW PARTITIONS {orders.name}")) == ["p=x", "p=y", "p=z"]


def test_amoro_2404_expiry_leaves_hive_its_files_and_those_that_it_was_given(orders: HiveTable) -> None:
    """No snapshot names them any more, once they are merged: others have deleted them for that."""
    before = fingerprint(orders.path)
    orders.publish()
    published = orders.hive_rows()
    orders.change("SELECT 4, 'newer', 'x'")
    orders.job("merge")
    at_once = "'firn.expire.max-age'='0 s', 'firn.expire.min-snapshots'='1'"
    orders.side.hive.sql(f"ALTER TABLE lake.{orders.name}.base SET TBLPROPERTIES ({at_once})")
    expired = orders.job("expire")["result"]
    assert expired["expired_snapshots"] > 0
    assert fingerprint(orders.path) == before
    assert orders.hive_rows() == published
    assert (4, "newer", "x") in orders.rows()


def test_a_read_that_follows_hive_and_a_write_that_is_published_wait_for_their_jobs(orders: HiveTable) -> None:
    side, name = orders.side, f"lake.{orders.name}"
    orders.insert("VALUES (5, 'theirs', 'y'), (3, 'theirs', 'y')")
    wait_until_settled()
    expected = [(1, "mine", "x"), (3, "theirs", "y"), (4, "new", "x"), (5, "theirs", "y")]
    assert side.hive.beside_jobs(side.server.url, "read", name, auto_sync="data") == expected
    rows = "SELECT CAST(5 AS BIGINT) AS id, 'mine' AS v, 'y' AS p"
    written = side.hive.beside_jobs(side.server.url, "upsert", rows, name, batch="b", publish=True)
    assert (written.batch, written.was_there) == ("b", False)
    expected = [(1, "mine", "x"), (3, "theirs", "y"), (4, "new", "x"), (5, "mine", "y")]
    assert orders.hive_rows() == orders.rows() == expected
    orders.alter("ADD COLUMNS (n INT)")
    reading = side.hive.beside_jobs(side.server.url, "read", name, auto_sync="metadata")
    assert reading[0] == (1, "mine", None, "x")


def test_the_command_merges_first_and_then_publishes(orders: HiveTable) -> None:
    command = Command(orders.side.server.url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(command, "hive", "publish", orders.name, "--json")
        while not future.done():
            orders.side.hive.work(orders.side.server.url)
    assert future.result().code == 0, future.result().err
    [report] = future.result().json
    assert (report["step"], report["job"]["kind"], report["job"]["status"]) == ("done", "publish", "succeeded")
    assert report["message"] == "1 partition published; Hive is up to date"
    assert orders.hive_rows() == [(1, "mine", "x"), (3, "c", "y"), (4, "new", "x")]
    assert "Hive is up to date" in command("hive", "publish", orders.name).out
    assert "without a lock: the metastore has no locks: " in command("hive", "show", orders.name).out


def test_rows_that_hive_has_added_are_not_taken_from_its_readers_until_they_are_merged(orders: HiveTable) -> None:
    orders.job("merge")
    orders.insert("VALUES (9, 'theirs', 'x')")
    orders.sync()  # its row is pending; base has other files than Hive lists
    outcome = orders.ask_publish(merge=False)
    assert (outcome["outcome"], [held["filter"] for held in outcome["held_back"]]) == ("held-back", ["just-written"])
    orders.publish()
    expected = [(1, "mine", "x"), (3, "c", "y"), (4, "new", "x"), (9, "theirs", "x")]
    assert orders.hive_rows() == orders.rows() == expected


def test_what_hive_does_to_a_published_partition_is_taken_over(orders: HiveTable) -> None:
    orders.publish()
    orders.insert("VALUES (5, 'theirs', 'x'), (4, 'theirs', 'x')")
    orders.sync()
    assert orders.rows() == [(1, "mine", "x"), (3, "c", "y"), (4, "theirs", "x"), (5, "theirs", "x")]
    # Hive has seen that key 1 is 'mine', and has overwritten it knowing that; of key 6 it knew nothing.
    orders.change("SELECT 6, 'mine', 'x'")
    orders.insert("VALUES (2, 'theirs', 'x')", how="OVERWRITE")
    orders.sync()
    assert orders.rows() == orders.rows(store=".base") == [(2, "theirs", "x"), (3, "c", "y"), (6, "mine", "x")]
    orders.alter("DROP PARTITION (p='x')")
    orders.sync()
    assert orders.rows() == [(3, "c", "y"), (6, "mine", "x")]


def test_writers_that_knew_where_a_partition_was_are_heard(orders: HiveTable) -> None:
    old, own = orders.path / "p=x", orders.path / "p=y"
    orders.publish()
    shutil.copy(next(own.glob("part-*")), old / "late.parquet")  # key 3, as it is in y
    os.utime(old / "late.parquet")
    assert orders.sync()["message"] == "partitions written to where they were before: 1"
    assert orders.rows() == [(1, "mine", "x"), (3, "c", "x"), (4, "new", "x")]
    # One that overwrites: Hive is to see what it wrote, and what it could not know of is replayed.
    for path in old.glob("*.parquet"):
        path.unlink()
    shutil.copy(next(own.glob("part-*")), old / "over.parquet")
    os.utime(old / "over.parquet")
    orders.sync()
    assert orders.hive_rows() == [(3, "c", "x"), (3, "c", "y")]
    assert orders.rows() == orders.rows(store=".base") == [(1, "mine", "x"), (3, "c", "x"), (4, "new", "x")]
    # What it overwrote waits; the key that came from the other partition is taken from there.
    request = orders.ask_publish(merge=False)
    assert "1 partition waits, because Hive has just written to it" in request["message"]
    orders.worked(request["job"])
    assert orders.hive_rows() == [(3, "c", "x")]


def test_a_key_that_hive_listed_twice_is_not_taken_from_it(orders: HiveTable) -> None:
    orders.publish()
    orders.insert("VALUES (3, 'moved by hive', 'x')")
    orders.sync()
    orders.job("merge")
    assert orders.rows() == [(1, "mine", "x"), (3, "moved by hive", "x"), (4, "new", "x")]
    orders.insert("VALUES (8, 'theirs', 'x')", how="OVERWRITE")
    orders.sync()
    # Hive's partition y was the other one that listed key 3, and still does.
    assert orders.rows() == orders.rows(store=".base") == [(3, "c", "y"), (8, "theirs", "x")] == orders.hive_rows()


def test_a_key_of_two_files_is_made_one_row_for_both_sides(side: Side) -> None:
    table = side.table(
        COLUMNS, PARTITION, "VALUES (1, 'old', 'x'), (2, 'b', 'x'), (3, 'c', 'y')", "VALUES (1, '', 'x')"
    )
    table.upgrade("id")
    assert table.job("keys")["result"]["keys"] == 1
    assert table.job("keys", resolve=True)["result"]["removed_rows"] == 1
    kept = [(1, "", "x"), (2, "b", "x"), (3, "c", "y")]
    assert table.rows() == table.rows(store=".base") == kept
    assert len(table.hive_rows()) == 4
    assert table.worked(table.ask_publish()["job"])["result"]["partitions"] == 1
    assert table.hive_rows() == table.rows() == kept
    assert table.ask_sync(everything=True)["outcome"] == "unchanged"


def test_values_of_all_types_come_back_as_they_were(side: Side) -> None:
    columns = (
        "id INT, t TINYINT, s SMALLINT, f FLOAT, d DOUBLE, b BOOLEAN, m DECIMAL(9,2), l DECIMAL(30,3), v VARCHAR(9),"
        " at TIMESTAMP, day DATE, raw BINARY, tags ARRAY<STRING>, pairs MAP<STRING,INT>,"
        " nested STRUCT<a:INT,m:DECIMAL(5,1)>"
    )
    row = (
        "1Y, -1Y, 7S, CAST(0.5 AS FLOAT), 1e300, true, 12.34, 1234567890.125, 'short',"
        " TIMESTAMP '1899-12-31 23:59:59.5', DATE '0001-01-01', X'00FF', array('x', NULL), map('k', 1),"
        " named_struct('a', 1, 'm', 2.5)"
    )
    table = side.table(columns, "p INT", f"SELECT {row}, 3").upgrade("id")
    table.change(
        "SELECT * FROM (SELECT 2, 1, 1, CAST(1 AS FLOAT), 2D, false, 1BD, 1BD, 'v', "
        "NULL, NULL, NULL, NULL, NULL, NULL, 3)"
    )
    before = table.hive_rows()
    table.publish()
    after = table.hive_rows()
    assert after[:1] == before
    assert after == table.rows()


def test_partitions_of_all_spellings_are_published_where_they_are_found_again(side: Side) -> None:
    table = side.table("id INT, v STRING", "p STRING, n INT", "VALUES (1, 'a', 'a b/ü', 7), (2, 'b', NULL, 7)")
    table.alter(f"ADD PARTITION (p='x=1%', n=8) LOCATION '{table.path.as_uri()}/elsewhere'")
    table.upgrade("id")
    rows = "SELECT 1, 'mine', 'a b/ü', 7 UNION ALL SELECT 2, 'mine', NULL, 7 UNION ALL SELECT 3, 'mine', 'x=1%', 8"
    table.change(f"{rows} UNION ALL SELECT 4, 'mine', 'neu é/%', NULL")
    assert table.publish()["result"]["switched"] == 4
    assert len(table.hive_rows()) == 4
    assert table.hive_rows() == table.rows() == table.rows(store=".base")
    assert table.ask_sync(everything=True)["outcome"] == "unchanged"
    assert table.ask_publish()["outcome"] == "up-to-date"
    table.insert("VALUES (5, 'theirs', 'a b/ü', 7)")
    table.sync()
    assert table.rows("id, v")[-1] == (5, "theirs")


@pytest.mark.parametrize("kind", ["STORED AS PARQUET", "USING ORC"])
def test_a_table_without_partitions_is_published_whole(side: Side, kind: str) -> None:
    table = side.table("id INT, v STRING", "", "VALUES (1, 'a'), (2, 'b')", kind=kind).upgrade("id")
    table.change("SELECT 2, 'mine'")
    table.publish()
    assert table.hive_rows() == table.rows() == [(1, "a"), (2, "mine")]
    table.insert("VALUES (3, 'theirs')")
    table.sync()
    assert table.rows() == [(1, "a"), (2, "mine"), (3, "theirs")]
    table.change("SELECT 1, '' UNION ALL SELECT 2, '' UNION ALL SELECT 3, ''", op="D")
    table.publish()
    assert table.hive_rows() == table.rows() == []


def test_columns_go_both_ways_and_no_reader_loses_sight_of_a_value(
    orders: HiveTable, metastore: EmbeddedMetastore
) -> None:
    orders.side.hive.sql(f"ALTER TABLE lake.{orders.name}.base ADD COLUMN own STRING COMMENT 'ours'")
    orders.side.hive.sql(f"ALTER TABLE lake.{orders.name}.base RENAME COLUMN v TO renamed")
    insert_columns = "(id, renamed, p, own, _op) VALUES (7, 'wide', 'x', 'kept', 'U')"
    orders.side.hive.sql(f"INSERT INTO lake.{orders.name}.change {insert_columns}")
    orders.publish()
    assert orders.hive_rows("id, v, own")[-1] == (7, "wide", "kept")
    assert orders.rows("id, renamed, own")[-1] == (7, "wide", "kept")
    assert orders.ask_sync(everything=True)["outcome"] == "unchanged"
    # Hive drops it, a merge writes the rows without it, and Hive, whose files still hold it, has it again.
    hive = HiveMetastore(MetastoreSettings.parse(metastore.uri))
    there = hive.table("db", orders.short).columns
    hive.alter_columns("db", orders.short, there[:2], expected=there, cascade=True)
    assert orders.sync()["message"] == "dropped column own"
    orders.change("SELECT 1, 'again', 'x'")
    orders.job("merge")
    hive.alter_columns("db", orders.short, there, expected=there[:2], cascade=True)
    hive.close()
    assert orders.sync()["message"] == "took column own back; partitions rewritten or moved: 1"
    assert orders.rows("id, renamed, own") == [
        (1, "again", None), (3, "c", None), (4, "new", None), (7, "wide", "kept"),
    ]  # fmt: skip
    orders.side.hive.sql(f"ALTER TABLE lake.{orders.name}.base DROP COLUMN renamed")
    with pytest.raises(AssertionError, match="dropped here"):
        orders.ask_publish()
    assert (
        "column 'v' was dropped here, Hive has it" in Command(orders.side.server.url)("hive", "show", orders.name).out
    )


def test_a_late_change_does_not_bring_back_what_was_deleted_and_published(side: Side) -> None:
    row = "TIMESTAMP '2026-01-0{} 00:00:00', '{}', 'x'"
    table = side.table("id INT, at TIMESTAMP, v STRING", PARTITION, f"VALUES (1, {row.format(1, 'a')})")
    table.upgrade("id", sequence_field="at")
    table.change(f"SELECT 2, {row.format(5, '')}", op="D")
    table.change(f"SELECT 3, {row.format(5, 'mine')}")
    table.publish()
    table.change(f"SELECT 2, {row.format(2, 'late')}")
    table.insert(f"VALUES (1, {row.format(3, 'theirs')})", how="OVERWRITE")
    table.sync()
    assert table.rows("id, v") == table.rows("id, v", ".base") == [(1, "theirs")]


def test_a_table_is_given_back_to_hive_and_upgraded_again(orders: HiveTable) -> None:
    before = fingerprint(orders.path)
    command = Command(orders.side.server.url)
    [left] = command("hive", "downgrade", orders.name, "--dry-run", "--json").json
    assert (left["pending_rows"], left["differing"], left["drift"]) == (3, 0, None)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(command, "hive", "downgrade", orders.name, "--no-wait-for-writers", "--json")
        while not future.done():
            orders.side.hive.work(orders.side.server.url)
    assert future.result().code == 0, future.result().err
    [report] = future.result().json
    assert (report["result"]["partitions"], report["result"]["published"]) == (2, 1)
    expected = [(1, "mine", "x"), (3, "c", "y"), (4, "new", "x")]
    assert orders.hive_rows() == expected
    assert fingerprint(orders.path) == before
    orders.insert("VALUES (9, 'theirs', 'x')")
    assert orders.upgrade("id").rows() == orders.hive_rows() == [*expected, (9, "theirs", "x")]
