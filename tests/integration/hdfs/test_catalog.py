"""A catalog on HDFS, and on ViewFS, without any Spark: PyIceberg commits, `client.scan` reads the server's images.

The server quarantines orphans, and deletes the files of purged tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import firn
from firn.hdfs import calls, files
from firn.hdfs.configuration import CONF_DIR
from firn.hdfs.registration import register_file_io
from firn.protocol.leases import Outcome, Result
from optimizer.client import ServerApi
from tests.integration.hdfs import view
from tests.integration.hdfs.jvms import has_jvm
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.spark_fixtures import ServerProcess, server_process, wait_for_images

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType(), required=False))
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@dataclass(frozen=True)
class FileSystem:
    """An address, and the directory of the cluster's files, which programs need to understand it."""

    uri: str
    conf_dir: Path


@pytest.fixture(scope="module", params=["hdfs", "viewfs"])
def file_system(
    request: pytest.FixtureRequest, cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FileSystem]:
    if request.param == "hdfs":
        yield FileSystem(cluster.uri, cluster.conf_dir)
        return
    mounts = {"lake": f"{cluster.uri}/mounted-lake"}
    conf_dir = view.write_mounts(tmp_path_factory.mktemp("view"), mounts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONF_DIR, str(conf_dir))
        yield FileSystem(f"{view.URI}/lake", conf_dir)


@pytest.fixture(scope="module")
def server(file_system: FileSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {
        "FIRN_WAREHOUSE": f"{file_system.uri}/warehouse",
        "FIRN_HADOOP__CONF_DIR": str(file_system.conf_dir),
        "FIRN_BACKGROUND__PURGE_SECONDS": "0.5",
    }
    with server_process(tmp_path_factory.mktemp("hdfs") / "data", **settings) as running:
        wait_for_images(running.http)
        yield running


@pytest.fixture
def catalog(server: ServerProcess) -> Catalog:
    register_file_io()
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "v": value} for number, value in pairs], schema=ARROW)


def scan(server: ServerProcess, table: str) -> list[tuple[int, str]]:
    with firn.connect(server.url) as client:
        return sorted((row["id"], row["v"]) for row in client.scan(table).to_arrow().to_pylist())


def test_a_plain_table_is_created_appended_read_and_dropped(
    file_system: FileSystem, server: ServerProcess, catalog: Catalog
) -> None:
    catalog.create_namespace("plain")
    table = catalog.create_table("plain.t", SCHEMA)
    assert table.location().startswith(f"{file_system.uri}/warehouse/plain/")
    table.append(rows((1, "a"), (2, "b")))
    table.append(rows((3, "c")))
    assert scan(server, "plain.t") == [(1, "a"), (2, "b"), (3, "c")]
    assert sorted(table.scan(row_filter="id > 1").to_arrow()["v"].to_pylist()) == ["b", "c"]
    listed = files.list_directory(table.location(), recursive=True)
    assert not [status.path for status in listed if status.path.rpartition("/")[2].startswith(".")]
    assert len([status for status in listed if status.path.endswith(".metadata.json")]) == 3


def test_a_keyed_table_is_read_as_its_image(server: ServerProcess, catalog: Catalog) -> None:
    catalog.create_namespace("keyed")
    catalog.create_table("keyed.t", SCHEMA, properties={"firn.primary-key": "id"})
    catalog.load_table("keyed.t").append(rows((1, "a"), (2, "b")))
    catalog.load_table("keyed.t").append(rows((2, "newer"), (3, "c")))
    expected = [(1, "a"), (2, "newer"), (3, "c")]
    assert scan(server, "keyed.t") == expected
    read = catalog.load_table("keyed.t").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in read) == expected
    assert not has_jvm(server.process.pid)


def list_files(location: str) -> set[str]:
    return {status.path for status in files.list_directory(location, recursive=True) if not status.is_directory}


def test_a_purge_deletes_the_files_of_a_dropped_table(server: ServerProcess, catalog: Catalog) -> None:
    catalog.create_namespace("gone")
    table = catalog.create_table("gone.t", SCHEMA)
    table.append(rows((1, "a")))
    before = list_files(table.location())
    catalog.purge_table("gone.t")
    assert list_files(table.location()) == before, "the files stay until the retention ends"
    [entry] = server.get("catalogs/lake/dropped?name=gone.t")["items"]
    assert server.http.delete(f"/api/v1/catalogs/lake/dropped/{entry['id']}").status_code == httpx.codes.ACCEPTED
    until = time.monotonic() + 60
    while server.get("catalogs/lake/dropped?name=gone.t")["items"]:
        assert time.monotonic() < until
        time.sleep(0.2)
    with pytest.raises(FileNotFoundError):
        files.get_status(table.location())


def remove_orphans(server: ServerProcess, table: str, proposed: list[str]) -> int:
    """Be an optimizer that lists without Spark; returns how many files the server deleted from the quarantine."""
    server.post(f"catalogs/lake/tables/{table}/jobs", {"kind": "remove-orphans"})
    client = ServerApi(server.http)
    optimizer = client.register(host="h", pid=1, version="test")
    lease = client.take_lease(optimizer.id, ["remove-orphans"], wait_seconds=0)
    assert lease is not None
    ended = client.ask(lease, "orphans/overdue", {"cursor": None}, seconds=60)
    client.ask(lease, "orphans", {"files": proposed}, seconds=60)
    client.report(lease, Result(outcome=Outcome.NOTHING), [])
    client.unregister(optimizer.id)
    return int(ended["deleted_files"])


def count_quarantined(file_system: FileSystem) -> int:
    return len([path for path in list_files(f"{file_system.uri}/warehouse/_firn_quarantine") if "report" not in path])


def test_orphans_are_set_aside_come_back_and_are_deleted_for_good(
    file_system: FileSystem, server: ServerProcess, catalog: Catalog
) -> None:
    catalog.create_namespace("strays")
    table = catalog.create_table("strays.t", SCHEMA)
    table.append(rows((1, "a")))
    needed = list_files(table.location())
    stray, other = (f"{table.location()}/data/p=a%3Ab/{name}.parquet" for name in ("stray", "other"))
    for location in (stray, other):
        files.write_new(location, b"nobody's rows")
    client, top = calls.connect(table.location())
    long_ago = int((time.time() - timedelta(days=30).total_seconds()) * 1000)
    for name in list_files(table.location()):
        client.set_times(f"{top}/{name}", long_ago, long_ago)
    everything = [f"{table.location()}/{name}" for name in list_files(table.location())]
    assert remove_orphans(server, "strays.t", everything) == 0
    assert list_files(table.location()) == needed
    [batch] = server.get("catalogs/lake/tables/strays.t/quarantine")["items"]
    assert ({file["path"] for file in batch["files"]}, batch["state"]) == ({stray, other}, "aside")
    assert count_quarantined(file_system) == 2
    answer = server.post("catalogs/lake/tables/strays.t/quarantine/restore", {"paths": [stray]})
    assert answer == {"restored": [stray]}
    restored = {*needed, stray.removeprefix(f"{table.location()}/")}
    assert list_files(table.location()) == restored
    policy = server.http.patch("/api/v1/catalogs/lake/policy", json={"set": {"firn.orphans.quarantine": "1 s"}})
    assert policy.is_success, policy.text
    time.sleep(1.5)
    assert remove_orphans(server, "strays.t", []) == 1
    assert count_quarantined(file_system) == 0
    assert list_files(table.location()) == restored
    assert scan(server, "strays.t") == [(1, "a")]
