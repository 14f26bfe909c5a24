"""Tables on HDFS: catalog, upgrade, sync, publish, merge and reads without Spark, with no JVM in the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firn.client import connect
from firn.embedded.metastore import EmbeddedMetastore
from firn.hdfs import calls, files
from firn.hdfs.files import HdfsReader
from tests.hive_engine import HiveEngine, Rows
from tests.hive_lake import NUMBERS, HiveTable, Side
from tests.integration.hdfs.jvms import has_jvm
from tests.integration.hdfs.mini_cluster import MiniCluster, shared_cluster
from tests.integration.hive.conftest import QUIET
from tests.spark_fixtures import server_process, wait_for_images

pytestmark = [pytest.mark.hive, pytest.mark.spark]
LAKE = "on_hdfs"
LONG_AGO_MS = 1_767_225_600_000


@pytest.fixture(scope="module")
def cluster() -> MiniCluster:
    return shared_cluster()


@pytest.fixture(scope="module")
def hdfs(
    cluster: MiniCluster, metastore: EmbeddedMetastore, hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Side]:
    """A server whose warehouse is on HDFS, beside the metastore and the Spark of all tests of this package."""
    settings = {
        "FIRN_WAREHOUSE": f"{cluster.uri}/warehouse",
        "FIRN_METASTORE": metastore.uri,
        "FIRN_HADOOP__CONF_DIR": str(cluster.conf_dir),
    }
    with server_process(tmp_path_factory.mktemp("hdfs") / "data", **settings, **QUIET) as server:
        wait_for_images(server.http)
        hive.attach(server.url, LAKE)
        yield Side(server, hive, Path("/nowhere"), LAKE)


def create(cluster: MiniCluster, side: Side, columns: str, partition: str, rows: str) -> tuple[HiveTable, str]:
    """A Hive table on HDFS, and its directory."""
    table = HiveTable(side, f"h{next(NUMBERS)}")
    location = f"{cluster.uri}/hive/{table.short}"
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
    listed = files.list_directory(location, recursive=True)
    return [(status.path, status.size, status.mtime_ns) for status in listed if not status.is_directory]


def scan(side: Side, table: str) -> Rows:
    """The rows as a reader without Spark gets them."""
    with connect(side.server.url) as client:
        rows = client.scan(f"lake.{table}").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def test_a_catalog_keeps_its_tables_on_hdfs(cluster: MiniCluster, hdfs: Side) -> None:
    name = f"{LAKE}.plain.events"
    hdfs.hive.sql(
        f"CREATE NAMESPACE {LAKE}.plain",
        f"CREATE TABLE {name} (id BIGINT, v STRING) USING iceberg",
        f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO {name} VALUES (3, 'c')",
        f"DELETE FROM {name} WHERE id = 2",
    )
    expected = [(1, "a"), (3, "c")]
    assert hdfs.hive.sql(f"SELECT * FROM {name}") == scan(hdfs, "plain.events") == expected
    loaded = hdfs.server.http.get("/iceberg/v1/lake/namespaces/plain/tables/events").json()
    location = loaded["metadata"]["location"]
    assert loaded["metadata-location"].startswith(f"{cluster.uri}/warehouse/plain/")
    assert not [status.path for status in files.list_directory(location, recursive=True) if ".tmp" in status.path]


def test_a_hive_table_on_hdfs_is_upgraded_synced_merged_published_and_read(cluster: MiniCluster, hdfs: Side) -> None:
    rows = "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y%3A z')"
    table, location = create(cluster, hdfs, "id BIGINT, v STRING", "p STRING", rows)
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
    assert table.rows() == scan(hdfs, table.name) == expected
    published = table.publish()["result"]
    assert (published["partitions"], published["switched"]) == (1, 1)
    assert table.hive_rows() == table.rows() == table.rows(store=".base") == scan(hdfs, table.name) == expected
    assert [entry for entry in before if entry not in fingerprint(location)] == []
    assert not has_jvm(hdfs.server.process.pid)


def test_a_file_that_is_written_in_place_is_registered_once_and_whole(cluster: MiniCluster, hdfs: Side) -> None:
    """No directory tells of the close: a sync that has seen the file open looks again."""
    table, location = create(cluster, hdfs, "id BIGINT", "p STRING", "VALUES (1, 'x')")
    table.upgrade()
    first = next(entry for entry in fingerprint(location) if entry[1])
    with HdfsReader(f"{location}/{first[0]}") as file:
        data = file.read()
    assert pq.read_table(HdfsReader(f"{location}/{first[0]}")).num_rows == 1
    client, path = calls.connect(f"{location}/p=x/late.parquet")
    late = client.create(path)
    table.sync()
    late.write(data)
    table.sync()
    assert table.rows() == [(1, "x")]
    late.close()
    age(location)
    table.sync()
    assert table.rows() == [(1, "x"), (1, "x")]
    assert table.ask_sync(everything=True)["outcome"] == "unchanged"
