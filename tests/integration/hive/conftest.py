"""A real metastore, a real server on it, and a real Spark with both of their catalogs; one of each for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_engine import HiveEngine
from tests.hive_lake import Side
from tests.integration.hive.real_hive import RealHive, RealMetastore
from tests.integration.hive.real_tables import ZONE, RealSide
from tests.integration.metastore.later import ENGINE, home
from tests.spark_fixtures import ServerProcess, server_process, wait_for_images

QUIET = {
    "FIRN_BACKGROUND__OPERATION_SECONDS": "2",
    "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "3600",
    "FIRN_BACKGROUND__HIVE_INDEX_SECONDS": "3600",
    "FIRN_HIVE__READ_TIMEOUT_SECONDS": "8",
}


@pytest.fixture(scope="package")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive") / "metastore", port=0) as running:
        yield running


@pytest.fixture(scope="package")
def hive(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveEngine]:
    engine = HiveEngine(metastore.uri, tmp_path_factory.mktemp("engine"))
    engine.sql("CREATE DATABASE db")
    yield engine
    engine.close()


@pytest.fixture(scope="package")
def server(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("firn") / "data"
    with server_process(directory, FIRN_METASTORE=metastore.uri, **QUIET) as running:
        wait_for_images(running.http)
        yield running


@pytest.fixture(scope="package")
def side(server: ServerProcess, hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Side:
    hive.attach(server.url)
    directory: Path = tmp_path_factory.mktemp("tables")
    return Side(server, hive, directory)


@pytest.fixture(scope="package")
def real_side(hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSide]:
    """Hive 4 itself at a metastore of its own, in a time zone of its own; of this side Spark sees Firn alone."""
    if not home(ENGINE).is_dir():
        pytest.fail("Hive 4 is not installed: make engines")
    top = tmp_path_factory.mktemp("real")
    with (
        RealMetastore(top / "metastore") as metastore,
        RealHive(metastore.uri, top / "hive", zone=ZONE) as real,
        server_process(top / "data", FIRN_METASTORE=metastore.uri, **QUIET) as server,
    ):
        real.sql("CREATE DATABASE db")
        wait_for_images(server.http)
        hive.attach(server.url, "real")
        yield RealSide(server, hive, top / "tables", "real", real=real, metastore=metastore)
