"""Tables of the secure cluster: Hive's files, appends through the catalog, and what readers see."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

import firn
from firn.hdfs import calls, files
from firn.hdfs.files import HdfsReader
from firn.hdfs.registration import register_file_io
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.integration.kerberos.cluster import SecureCluster
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import ServerProcess

JOB_SECONDS = 540


def upgrade(cluster: SecureCluster, server: ServerProcess, hive: HiveSide, name: str) -> str:
    """Make a Hive table with two rows in the partition p=x, and upgrade it; returns its location."""
    location = f"{cluster.hdfs.uri}/hive/{name}"
    write(f"{location}/p=x/1.parquet", (1, "a"), (2, "b"))
    storage = a_storage(location, "id bigint; v string")
    hive.add_table(a_hive_table(name=name, storage=storage, partitioned_by="p string"))
    partition = a_hive_partition("x", storage=a_storage(f"{location}/p=x", "id bigint; v string"))
    hive.add_partition("db", name, partition)
    operation = server.post(f"catalogs/lake/hive/db.{name}/upgrade", {"primary_key": ["id"], "properties": {}})
    ended = wait_for(lambda: server.get(f"operations/{operation['id']}"), lambda seen: seen["status"] != "running", 60)
    assert ended["status"] == "succeeded", ended
    return location


def write(location: str, *rows: tuple[int, str]) -> None:
    """Write a Parquet file as Hive would, an hour ago, so that no sync waits for it to settle."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [row[0] for row in rows], "v": [row[1] for row in rows]}), sink)
    files.write_new(location, sink.getvalue())
    client, path = calls.connect(location)
    long_ago = int(time.time() - 3600) * 1000
    client.set_times(path, long_ago, long_ago)


def read(directory: str) -> list[tuple[int, str]]:
    """The rows of all Parquet files in a directory."""
    names = [status.path for status in files.list_directory(directory) if status.path.endswith(".parquet")]
    tables = [pq.ParquetFile(HdfsReader(f"{directory}/{name}")).read(columns=["id", "v"]) for name in names]
    return sorted((row["id"], row["v"]) for table in tables for row in table.to_pylist())


def append(server: ServerProcess, table: str, row: dict[str, Any]) -> None:
    """Append a row with PyIceberg, as the current principal."""
    register_file_io()
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("p", pa.string())])
    catalog.load_table(table).append(pa.Table.from_pylist([row], schema=schema))


def scan(server: ServerProcess, table: str) -> list[tuple[int, str]]:
    """The rows as a reader without Spark gets them, read as the current principal."""
    with firn.connect(server.url) as client:
        return sorted((row["id"], row["v"]) for row in client.scan(table).to_arrow().to_pylist())


def wait_for(look: Callable[[], Any], done: Callable[[Any], bool], seconds: float = JOB_SECONDS) -> Any:
    until = time.monotonic() + seconds
    while not done(seen := look()):
        assert time.monotonic() < until, seen
        time.sleep(0.5)
    return seen
