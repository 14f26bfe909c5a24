"""Tables on HDFS: catalog, upgrade, sync, publish, merge and reads without Spark, with no JVM in the server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.client import connect
from firn.embedded.metastore import EmbeddedMetastore
from firn.hdfs import calls, files
from firn.hdfs.files import HdfsReader
from server.files.deadlines import Deadlines
from server.files.permissions import StoredPermissions
from tests.docs.blocks import ADDRESS, DOCS, blocks
from tests.hive_engine import HiveEngine
from tests.hive_lake import Side
from tests.integration.hdfs.mini_cluster import MiniCluster, shared_cluster
from tests.integration.hive.conftest import QUIET
from tests.integration.hive.hdfs_tables import (
    ROWS,
    age,
    create,
    find_partition,
    fingerprint,
    live_through_the_main_job,
    scan,
)
from tests.integration.hive.page_commands import Terminal
from tests.integration.keyed.supervisor import free_port
from tests.spark_fixtures import interpret_queries, server_process, wait_for_images

pytestmark = [pytest.mark.hive, pytest.mark.spark]
LAKE = "on_hdfs"
MEMBER = "daemon"
"""A user in a group of the same name: the name node asks the machine for groups, and every machine has this one."""


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


def give(location: str, owner: str, group: str) -> None:
    """Give a directory, and all below it, to a user and a group, and close it to others."""
    client, top = calls.connect(location)
    below = [(f"{top}/{status.path}", status.is_directory) for status in files.list_directory(location, recursive=True)]
    for path, is_directory in [(top, True), *below]:
        client.set_owner(path, owner, group)
        client.set_permission(path, 0o770 if is_directory else 0o660)


def write_parquet(location: str, number: int, text: str) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": [number], "v": [text]}), buffer)
    files.write_new(location, buffer.getvalue())


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
    table, location = create(cluster.uri, hdfs, "id BIGINT, v STRING", "p STRING", ROWS)
    live_through_the_main_job(table, location)


def test_a_file_that_is_written_in_place_is_registered_once_and_whole(cluster: MiniCluster, hdfs: Side) -> None:
    """No directory tells of the close: a sync that has seen the file open looks again."""
    table, location = create(cluster.uri, hdfs, "id BIGINT", "p STRING", "VALUES (1, 'x')")
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


def test_hives_writers_keep_access_to_what_is_published(
    cluster: MiniCluster, hdfs: Side, metastore: EmbeddedMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is lily's, and another user writes there as a member of its group; Firn is a third user."""
    table, location = create(
        cluster.uri, hdfs, "id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x'), (2, 'b', 'y')"
    )
    give(location, "lily", MEMBER)
    table.upgrade("id")
    table.change("SELECT 3, 'new', 'x'")
    assert table.publish()["result"]["switched"] == 1

    published = find_partition(metastore, table, "x")
    assert published.startswith(f"{cluster.uri}/warehouse/")
    permissions = StoredPermissions(Deadlines(30))
    assert permissions.read(published).describe() == "lily:daemon rwxrwx---"
    (file,) = permissions.read_files(published)
    assert file.describe() == "lily:daemon rw-rw----"
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    with pytest.raises(PermissionError, match="user=ann"):
        files.list_directory(published)

    for number, user in enumerate(("lily", MEMBER), start=4):
        monkeypatch.setenv("HADOOP_USER_NAME", user)
        write_parquet(f"{published}/by-{user}.parquet", number, user)
    (merged,) = [path for path, _, _ in fingerprint(published) if not path.startswith("by-")]
    files.delete(f"{published}/{merged}")  # as INSERT OVERWRITE does
    monkeypatch.delenv("HADOOP_USER_NAME")
    age(published)
    table.sync()
    assert table.rows() == table.hive_rows() == [(2, "b", "y"), (4, "lily", "x"), (5, MEMBER, "x")]
    assert permissions.read(published).describe() == "lily:daemon rwxrwx---"


def test_the_first_commands_of_the_page_upgrade_a_table_and_publish_it(
    cluster: MiniCluster, metastore: EmbeddedMetastore, hive: HiveEngine, tmp_path: Path
) -> None:
    """An ordinary user runs them, as docs/clusters.md has them; only addresses and directories are the test's."""
    make_home(cluster, "firn")
    hive.sql(
        "CREATE DATABASE sales",
        f"CREATE TABLE sales.orders (id BIGINT, v STRING) STORED AS PARQUET LOCATION '{cluster.uri}/hive/sales/orders'",
        "INSERT INTO sales.orders VALUES (1, 'a'), (2, 'b')",
    )
    age(f"{cluster.uri}/hive/sales/orders")
    url = f"http://127.0.0.1:{free_port()}"
    here = {
        "/etc/hadoop/conf": str(cluster.conf_dir),
        "hdfs://prod": cluster.uri,
        "/srv/firn": str(tmp_path / "srv"),
        "thrift://metastore:9083": metastore.uri,
        ADDRESS: url,
    }
    page = (DOCS / "clusters.md").read_text(encoding="utf-8")
    commands = next(blocks(page)).text
    for word, other in here.items():
        commands = commands.replace(word, other)
    assert len(commands.splitlines()) == 10
    own = {"FIRN_PORT": url.rpartition(":")[2], "FIRN_SERVER": url, **interpret_queries(tmp_path)}
    printed = ""
    with Terminal(tmp_path / "log", own) as terminal:
        for line in commands.splitlines():
            if line.startswith("firn hive sync"):
                hive.sql("INSERT INTO sales.orders VALUES (3, 'c')")
                age(f"{cluster.uri}/hive/sales/orders")
            printed = terminal.type(line)
            if line.startswith("firn serve"):
                terminal.wait_until_printed(url)
        assert "orders" in printed
        with connect(url) as client:
            rows = client.scan("lake.sales.orders").to_arrow().to_pylist()
        hive.sql("DROP DATABASE sales CASCADE")
    assert sorted(row["id"] for row in rows) == [1, 2, 3]


def make_home(cluster: MiniCluster, user: str) -> None:
    """Give a user a directory, as the administrator of a cluster does."""
    client, path = calls.connect(f"{cluster.uri}/user/{user}")
    client.mkdirs(path, create_parent=True)
    client.set_owner(path, user, user)
