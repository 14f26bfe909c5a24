"""A catalog on HDFS without any Spark: PyIceberg commits, the server builds images, `client.scan` reads them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import firn
from firn.hdfs import files
from firn.hdfs.registration import register_file_io
from tests.integration.hdfs.jvms import has_jvm
from tests.integration.hdfs.mini_cluster import MiniCluster, shared_cluster
from tests.spark_fixtures import ServerProcess, server_process, wait_for_images

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType(), required=False))
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture(scope="module")
def cluster() -> MiniCluster:
    return shared_cluster()


@pytest.fixture(scope="module")
def server(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"FIRN_WAREHOUSE": f"{cluster.uri}/warehouse", "FIRN_HADOOP__CONF_DIR": str(cluster.conf_dir)}
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
    cluster: MiniCluster, server: ServerProcess, catalog: Catalog
) -> None:
    catalog.create_namespace("plain")
    table = catalog.create_table("plain.t", SCHEMA)
    assert table.location().startswith(f"{cluster.uri}/warehouse/plain/")
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
