"""A Hive table of many files on HDFS is upgraded, synced, changed, merged and published on YARN, and downgraded.

A soak gives it 10,000 files. Hive's statements run as the user to whom the table belongs, Firn is another one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.embedded.metastore import EmbeddedMetastore
from firn.hdfs import calls, files
from tests.hive_engine import HiveEngine
from tests.integration.hdfs.launches import (
    connect_catalog,
    end_optimizers,
    server_on_yarn,
    start_optimizers,
    token_of,
    upload_package,
    wait_for,
)
from tests.integration.hdfs.mini_cluster import MiniCluster, run_tool
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.spark_fixtures import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.hive, pytest.mark.model, pytest.mark.timeout(3600)]

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
FILES, PARTITIONS = (10_000, 500) if IS_SOAK else (200, 20)
ROWS_PER_FILE = 20
OWNER, GROUP = "lily", "daemon"
"""The name node asks the machine for groups, and every machine has a user in this one."""
TABLE = "db.orders"
LONG_AGO_MS = 1_767_225_600_000
SUMS = f"SELECT count(*), sum(id), count(DISTINCT v), max(v) FROM {TABLE}"
_SHELL = "org.apache.hadoop.fs.FsShell"


@dataclass(frozen=True)
class Cluster:
    """What the test works with."""

    hdfs: MiniCluster
    server: ServerProcess
    hive: HiveEngine

    @property
    def location(self) -> str:
        return f"{self.hdfs.uri}/hive/orders"

    def sums(self) -> list[tuple[Any, ...]]:
        """What Hive's users see."""
        return self.hive.sql(f"REFRESH TABLE {TABLE}", SUMS)

    def scan(self) -> tuple[Any, ...]:
        """The same of what a client of Firn sees."""
        with firn.connect(self.server.url, token=token_of(self.server)) as client:
            rows = client.scan(f"lake.{TABLE}").to_arrow()
        texts = set(rows["v"].to_pylist())
        return (rows.num_rows, sum(rows["id"].to_pylist()), len(texts), max(texts))

    def wait_for_operation(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until an operation has succeeded; returns it."""
        path = f"operations/{operation['id']}"
        wait_for(lambda: self.server.get(path)["status"] != "running", operation["kind"], self.server, pause=0.2)
        ended = self.server.get(path)
        assert ended["status"] == "succeeded", ended
        return ended

    def wait_for_job(self, job: Mapping[str, Any]) -> None:
        """Wait until an optimizer on YARN has done a job."""
        path = f"jobs/{job['id']}"
        wait_for(lambda: bool(self.server.get(path)["status"] == "succeeded"), f"the {job['kind']} job", self.server)

    def sync(self) -> str:
        """Sync, and wait for the jobs that it takes; returns what the first sync says."""
        age(self.location)
        first = outcome = self.server.post(f"catalogs/lake/hive/{TABLE}/sync")
        while outcome["job"] is not None:
            self.wait_for_job(outcome["job"])
            outcome = self.server.post(f"catalogs/lake/hive/{TABLE}/sync")
        return str(first["message"])

    def publish(self) -> dict[str, Any]:
        """Publish, and wait until it is done; returns the result of its job."""
        self.server.post(f"catalogs/lake/hive/{TABLE}/publish")
        wait_for(lambda: self._publish_request()["step"] in ("done", "failed"), "the publish", self.server)
        request = self._publish_request()
        assert request["step"] == "done", request
        result: dict[str, Any] = self.server.get(f"jobs/{request['job_id']}")["result"]
        return result

    def _publish_request(self) -> dict[str, Any]:
        request: dict[str, Any] = self.server.get(f"catalogs/lake/hive/{TABLE}")["publish_request"]
        return request


@pytest.fixture(scope="module")
def there(
    cluster: MiniCluster, yarn: MiniYarn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, MiniYarn]]:
    top = tmp_path_factory.mktemp("large")
    with (
        EmbeddedMetastore(top / "metastore", port=0) as metastore,
        server_on_yarn(cluster, yarn, top / "data", FIRN_METASTORE=metastore.uri) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_USER_NAME", OWNER)
        hive = HiveEngine(metastore.uri, tmp_path_factory.mktemp("engine"))
        patch.delenv("HADOOP_USER_NAME")
        yield Cluster(cluster, server, hive), yarn
        hive.close()


def in_parquet(ids: range, text: str) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": [f"{text} {number}" for number in ids]}), buffer)
    return buffer.getvalue()


def day(number: int) -> str:
    return f"day={2000 + number // 336}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"


def write_files(location: str) -> None:
    """Hive's files, of rows that all differ; they belong to the table's owner and to a group."""
    client, top = calls.connect(location)

    def write(number: int) -> None:
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        files.write_new(f"{location}/{day(number % PARTITIONS)}/part-{number:05d}.parquet", in_parquet(ids, "v"))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(FILES)))
    paths = {top: 0o770}
    for status in files.list_directory(location, recursive=True):
        paths[f"{top}/{status.path}"] = 0o770 if status.is_directory else 0o660
    for path, mode in paths.items():
        client.set_owner(path, OWNER, GROUP)
        client.set_permission(path, mode)


def age(location: str) -> None:
    """Give the files one old time, so that no sync waits for them to settle."""
    client, top = calls.connect(location)
    for status in files.list_directory(location, recursive=True):
        if not status.is_directory and status.mtime_ns != LONG_AGO_MS * 10**6:
            client.set_times(f"{top}/{status.path}", LONG_AGO_MS, LONG_AGO_MS)


def upsert(server: ServerProcess, ids: range, partitions: int) -> None:
    """New values for these rows: every file's ids follow each other, and files go round the partitions."""
    days = [day(number // ROWS_PER_FILE % partitions).removeprefix("day=") for number in ids]
    rows = {"id": pa.array(ids, pa.int64()), "v": [f"w {number}" for number in ids], "day": days}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("day", pa.string())])
    connect_catalog(server).load_table(TABLE).append(pa.table(rows, schema=schema))


def _create_in_hive(at: Cluster) -> None:
    write_files(at.location)
    age(at.location)
    at.hive.sql(
        "CREATE DATABASE db",
        f"CREATE EXTERNAL TABLE {TABLE} (id BIGINT, v STRING) PARTITIONED BY (day STRING) STORED AS PARQUET"
        f" LOCATION '{at.location}'",
        f"MSCK REPAIR TABLE {TABLE}",
    )


def _check_downgrade(at: Cluster, after: tuple[Any, ...], rows: int) -> None:
    # Hive overwrote a partition a moment ago; a downgrade would give the other half of an overwrite an hour to arrive.
    at.server.set_property(TABLE, "firn.hive.overwrite-window", "1 s")
    at.wait_for_operation(at.server.post(f"catalogs/lake/hive/{TABLE}/downgrade", {"wait_for_writers": False}))
    at.hive.sql(f"INSERT INTO {TABLE} VALUES ({rows + 3}, 'x', '{day(3)[4:]}')")
    assert at.sums() == [(after[0] + 1, after[1] + rows + 3, after[2] + 1, "x")]


def test_a_large_table_goes_to_firn_and_back_with_its_jobs_on_yarn(
    there: tuple[Cluster, MiniYarn], tmp_path_factory: pytest.TempPathFactory
) -> None:
    at, yarn = there
    _create_in_hive(at)
    rows = FILES * ROWS_PER_FILE
    before = (rows, rows * (rows - 1) // 2, rows, f"v {max(map(str, range(rows)))}")
    assert at.sums() == [before]
    upgrade = at.server.post(f"catalogs/lake/hive/{TABLE}/upgrade", {"primary_key": ["id"]})
    upgraded = at.wait_for_operation(upgrade)
    assert upgraded["result"]["files"] == FILES
    assert at.scan() == before

    package = upload_package(at.hdfs, tmp_path_factory.mktemp("package"))
    start_optimizers(at.server, package, queue="default")
    at.hive.sql(f"INSERT INTO {TABLE} VALUES ({rows}, 'theirs', '{day(0)[4:]}')")
    assert at.sync() == "partitions new files: 1"
    put = tmp_path_factory.mktemp("put") / "put.parquet"
    put.write_bytes(in_parquet(range(rows + 1, rows + 3), "put"))
    run_tool(at.hdfs.conf_dir, _SHELL, "-fs", at.hdfs.uri, "-put", str(put), f"{at.location}/{day(1)}/")
    assert at.sync() == "partitions new files: 1"
    kept = f"range({2 * ROWS_PER_FILE}, {3 * ROWS_PER_FILE}) WHERE id % 2 = 0"
    at.hive.sql(f"INSERT OVERWRITE {TABLE} PARTITION (day='{day(2)[4:]}') SELECT id, concat('kept ', id) FROM {kept}")
    at.sync()
    expected = at.sums()[0]
    assert expected[0] < before[0]
    assert at.scan() == expected

    upsert(at.server, range(5 * ROWS_PER_FILE, 8 * ROWS_PER_FILE), PARTITIONS)
    at.wait_for_job(at.server.post(f"catalogs/lake/tables/{TABLE}/jobs", {"kind": "merge"}))
    # The rows of Hive's new files came as upserts, so these two partitions are published with the three.
    assert at.publish()["switched"] == 5
    after = at.scan()
    assert after[:3] == expected[:3]
    assert after[3].startswith("w ")
    assert at.sums() == [after]

    _check_downgrade(at, after, rows)
    end_optimizers(at.server, yarn, len(yarn.list_ended()) + 1)
