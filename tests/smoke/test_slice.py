"""One Hive table through everything that Firn does, on a real metastore and a real Spark.

The second tier has each step with its edge cases; this shows that the parts fit together.
"""

from __future__ import annotations

import pytest

from tests.command_line import Command
from tests.fingerprints import fingerprint
from tests.hive_engine import Rows
from tests.hive_lake import HiveTable, Side

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')"


@pytest.fixture(scope="module")
def orders(side: Side) -> HiveTable:
    """Three keys in two partitions, upgraded by the API. What was read is kept for a moment: it holds up expiry."""
    return side.table("id BIGINT, v STRING", "p STRING", ORDERS).upgrade("id", **{"firn.read.keep": "1 s"})


def test_a_hive_table_is_upgraded_written_maintained_and_published(orders: HiveTable) -> None:
    assert orders.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "c", "y")]
    before = sync_what_hive_writes(orders)
    expected = write_by_client(orders)
    maintain(orders, expected)
    publish(orders, expected)
    assert fingerprint(orders.path) == before, "Hive's own files stay as they were"
    ask_by_command_line(orders, expected)


def sync_what_hive_writes(orders: HiveTable) -> dict[str, tuple[int, int, str]]:
    """What Hive's files look like before the sync."""
    orders.insert("VALUES (4, 'hive', 'y')")
    before = fingerprint(orders.path)
    orders.sync()
    assert orders.rows()[3:] == [(4, "hive", "y")]
    return before


def write_by_client(orders: HiveTable) -> Rows:
    """Readers see a batch before it is merged, once however often it is sent. The rows that they see then."""
    hive, table = orders.side.hive, f"lake.{orders.name}"
    changed = [(1, "mine", "x"), (5, "new", "x")]
    columns = "id BIGINT, v STRING, p STRING"
    assert hive.write("upsert", table, columns, changed, "b1") is False
    assert hive.write("upsert", table, columns, changed, "b1") is True
    hive.write("delete", table, "id BIGINT", [(2,)], "b2")
    expected = [(1, "mine", "x"), (3, "c", "y"), (4, "hive", "y"), (5, "new", "x")]
    assert orders.rows() == expected
    assert orders.rows(store=".base") != expected
    return expected


def maintain(orders: HiveTable, expected: Rows) -> None:
    """Jobs merge, rewrite and expire, and change no row."""
    assert orders.job("merge")["result"]["pending_rows"] == 4
    assert orders.rows() == orders.rows(store=".base") == expected
    assert orders.job("rewrite")["status"] == "succeeded"
    at_once = "'firn.expire.max-age'='0 s', 'firn.expire.min-snapshots'='1'"
    orders.side.hive.sql(f"ALTER TABLE lake.{orders.name} SET TBLPROPERTIES ({at_once})")
    assert orders.job("expire")["result"]["expired_snapshots"] > 0
    assert orders.rows() == expected


def publish(orders: HiveTable, expected: Rows) -> None:
    """Hive is given what it does not have."""
    published = orders.publish()
    assert published["result"]["switched"] >= 1
    assert orders.hive_rows() == orders.rows() == expected
    assert orders.ask_sync(everything=True)["message"] == "nothing changed"
    assert orders.ask_publish()["message"] == "nothing to publish"


def ask_by_command_line(orders: HiveTable, expected: Rows) -> None:
    command = Command(orders.side.server.url)
    assert command("hive", "show", orders.name, "--json").json["state"] == "upgraded"
    assert command("table", "show", orders.name, "--json").json["records"] == len(expected)


def test_a_plain_table_is_created_and_read_by_spark(side: Side) -> None:
    side.hive.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain", "CREATE TABLE lake.plain.t (id INT) USING iceberg")
    side.hive.sql("INSERT INTO lake.plain.t VALUES (1)", "INSERT INTO lake.plain.t VALUES (2)")
    assert side.hive.sql("SELECT id FROM lake.plain.t VERSION AS OF 'main'") == [(1,), (2,)]
    job = side.server.post("catalogs/lake/tables/plain.t/jobs", {"kind": "rewrite"})
    assert side.worked_on(job)["status"] == "succeeded"
    assert side.hive.sql("SELECT count(*) FROM lake.plain.t.files") == [(1,)]
