"""Tables behind mount points of ViewFS, of which metastore, Spark and server know from the cluster's files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from firn.hdfs import files
from firn.hdfs.configuration import CONF_DIR
from tests.hive_engine import HiveEngine
from tests.hive_lake import NUMBERS, HiveTable, Side
from tests.integration.hdfs.mini_cluster import shared_cluster
from tests.integration.hdfs.view import URI, write_mounts
from tests.integration.hive.conftest import QUIET
from tests.integration.hive.hdfs_tables import (
    ROWS,
    age,
    create,
    find_partition,
    live_through_the_main_job,
    scan,
)
from tests.spark_fixtures import server_process, wait_for_images

pytestmark = [pytest.mark.hive, pytest.mark.spark]
LAKE, ARCHIVE = f"{URI}/lake", f"{URI}/archive"
HIVE = f"{LAKE}/hive"


class ViewMetastore(EmbeddedMetastore):
    """A metastore with the mount table, whose databases lie on ViewFS."""

    def _settings(self) -> dict[str, str]:
        return super()._settings() | {"hive.metastore.warehouse.dir": HIVE}

    def _write_settings(self) -> None:
        super()._write_settings()
        write_cluster(self.data_dir / "conf")


def write_cluster(directory: Path) -> Path:
    """Two mount points that lead to two name services, as far as clients can tell; all other paths lead nowhere."""
    hdfs = shared_cluster().uri
    other_service = hdfs.replace("127.0.0.1", "localhost")
    return write_mounts(directory, {"lake": f"{hdfs}/mounts/lake", "archive": f"{other_service}/mounts/archive"})


@pytest.fixture(scope="module")
def conf_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """It is in the environment of this process, from which Spark and its Java have it."""
    directory = write_cluster(tmp_path_factory.mktemp("view"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONF_DIR, str(directory))
        yield directory


@pytest.fixture(scope="module")
def metastore(conf_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    files.make_directories(HIVE)
    with ViewMetastore(tmp_path_factory.mktemp("view-hive") / "metastore", port=0) as running:
        yield running


@pytest.fixture(scope="module")
def side(metastore: EmbeddedMetastore, conf_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    settings = {
        "FIRN_WAREHOUSE": f"{LAKE}/warehouse",
        "FIRN_METASTORE": metastore.uri,
        "FIRN_HADOOP__CONF_DIR": str(conf_dir),
    }
    engine = HiveEngine(metastore.uri, tmp_path_factory.mktemp("view-engine"))
    try:
        with server_process(tmp_path_factory.mktemp("view-firn") / "data", **settings, **QUIET) as server:
            wait_for_images(server.http)
            engine.attach(server.url)
            engine.sql(f"CREATE DATABASE db LOCATION '{HIVE}/db.db'")
            yield Side(server, engine, Path("/nowhere"))
    finally:
        engine.close()


def test_a_table_of_hives_own_warehouse_is_upgraded_synced_merged_published_and_read(
    side: Side, metastore: EmbeddedMetastore
) -> None:
    table = HiveTable(side, f"v{next(NUMBERS)}")
    side.hive.sql(f"CREATE TABLE {table.name} (id BIGINT, v STRING) PARTITIONED BY (p STRING) STORED AS PARQUET")
    table.insert(ROWS)
    location = f"{HIVE}/db.db/{table.short}"
    assert find_partition(metastore, table, "x") == f"{location}/p=x"
    age(location)
    live_through_the_main_job(table, location)
    assert find_partition(metastore, table, "x").startswith(f"{LAKE}/warehouse/published-to-hive/")


def test_a_table_behind_another_mount_point_is_published_beside_it(side: Side, metastore: EmbeddedMetastore) -> None:
    """Spark renames new files from the table's directory into those of partitions, across which ViewFS refuses."""
    table, location = create(ARCHIVE, side, "id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    checks = side.server.post(f"catalogs/lake/hive/{table.name}/check", {"primary_key": ["id"]})["checks"]
    assert [check["advice"] for check in checks if check["code"] == "publish"] != []
    findings = side.server.http.post("/api/v1/hadoop/check").json()
    assert [finding for finding in findings if finding["severity"] != "ok"] == []
    table.upgrade("id")
    table.change("SELECT 3, 'new', 'x'")
    preview = side.server.get(f"catalogs/lake/hive/{table.name}/publish?permissions=true")["permissions"]
    assert f"mount point than {location}" in preview["refused"]
    assert "firn.hive.publish.location" in preview["hint"]

    allowed = {"firn.storage.allowed-locations": f"{location},{ARCHIVE}/published"}
    side.server.http.patch("/api/v1/catalogs/lake/properties", json={"set": allowed}).raise_for_status()
    side.hive.sql(
        f"ALTER TABLE {side.lake}.{table.name} SET TBLPROPERTIES ('firn.hive.publish.location' = '{ARCHIVE}/published')"
    )
    assert table.publish()["result"]["switched"] == 1
    switched = find_partition(metastore, table, "x")
    assert switched.startswith(f"{ARCHIVE}/published/")
    side.hive.sql(f"INSERT INTO {table.name} VALUES (4, 'theirs', 'x'), (5, 'theirs', 'y')")
    for directory in (location, switched):
        age(directory)
    table.sync()
    expected = [(1, "a", "x"), (2, "b", "y"), (3, "new", "x"), (4, "theirs", "x"), (5, "theirs", "y")]
    assert table.hive_rows() == table.rows() == scan(side, table.name) == expected
