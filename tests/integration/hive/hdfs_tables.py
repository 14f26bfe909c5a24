"""Hive tables on HDFS and on ViewFS: their files, and their rows as readers without Spark get them."""

from __future__ import annotations

from firn.client import connect
from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from firn.hdfs import calls, files
from tests.hive_engine import Rows
from tests.hive_lake import NUMBERS, HiveTable, Side
from tests.integration.hdfs.jvms import has_jvm

LONG_AGO_MS = 1_767_225_600_000
ROWS = "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y%3A z')"


def create(top: str, side: Side, columns: str, partition: str, rows: str) -> tuple[HiveTable, str]:
    """A Hive table in a directory of HDFS or ViewFS, and its location there."""
    table = HiveTable(side, f"h{next(NUMBERS)}")
    location = f"{top}/hive/{table.short}"
    by = f"STORED AS PARQUET PARTITIONED BY ({partition}) LOCATION '{location}'"
    side.hive.sql(f"CREATE TABLE {table.name} ({columns}) {by}")
    table.insert(rows)
    age(location)
    return table, location


def age(location: str) -> None:
    """Give the files one old time, so that no sync waits for them to settle."""
    client, top = calls.connect(location)
    for status in files.list_directory(location, recursive=True):
        if not status.is_directory:
            client.set_times(f"{top}/{status.path}", LONG_AGO_MS, LONG_AGO_MS)


def fingerprint(location: str) -> list[tuple[str, int, int]]:
    """Path, size and time of all files below a location."""
    listed = files.list_directory(location, recursive=True)
    return [(status.path, status.size, status.mtime_ns) for status in listed if not status.is_directory]


def live_through_the_main_job(table: HiveTable, location: str) -> None:
    """A table of rows 1 to 3, two of them in partition x, is upgraded, synced, changed, merged and published.

    After each step all readers see the same rows. Firn rewrites none of the files that Hive has written.
    """
    before = fingerprint(location)
    table.upgrade("id")
    assert table.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "c", "y%3A z")]

    table.insert("VALUES (5, 'theirs', 'x')")
    age(location)
    assert table.sync()["message"] == "partitions new files: 1"
    assert table.ask_sync()["outcome"] == "unchanged"
    table.change("SELECT 1, 'mine', 'x' UNION ALL SELECT 4, 'new', 'x'")
    table.change("SELECT 2, '', 'x'", op="D")
    expected = [(1, "mine", "x"), (3, "c", "y%3A z"), (4, "new", "x"), (5, "theirs", "x")]
    assert table.rows() == scan(table.side, table.name) == expected

    published = table.publish()["result"]
    assert (published["partitions"], published["switched"]) == (1, 1)
    assert table.hive_rows() == table.rows() == table.rows(store=".base") == scan(table.side, table.name) == expected
    assert [entry for entry in before if entry not in fingerprint(location)] == []
    assert not has_jvm(table.side.server.process.pid)


def find_partition(metastore: EmbeddedMetastore, table: HiveTable, value: str) -> str:
    """The directory of a partition that Hive's users read."""
    with MetastoreSession(metastore.port) as session:
        return str(session.get_partition("db", table.short, [value]).sd.location)


def scan(side: Side, table: str) -> Rows:
    """The rows as a reader without Spark gets them."""
    with connect(side.server.url) as client:
        rows = client.scan(f"lake.{table}").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)
