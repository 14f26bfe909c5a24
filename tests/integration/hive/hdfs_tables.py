"""Hive tables on HDFS and on ViewFS: their files, and their rows as readers without Spark get them."""

from __future__ import annotations

from firn.client import connect
from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from firn.hdfs import calls, files
from tests.hive_engine import Rows
from tests.hive_lake import NUMBERS, HiveTable, Side

LONG_AGO_MS = 1_767_225_600_000


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


def find_partition(metastore: EmbeddedMetastore, table: HiveTable, value: str) -> str:
    """The directory of a partition that Hive's users read."""
    with MetastoreSession(metastore.port) as session:
        return str(session.get_partition("db", table.short, [value]).sd.location)


def scan(side: Side, table: str) -> Rows:
    """The rows as a reader without Spark gets them."""
    with connect(side.server.url) as client:
        rows = client.scan(f"lake.{table}").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)
