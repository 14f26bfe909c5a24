"""The real parts of the first tier: one metastore, one Spark, one server and one browser for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from firn.embedded.metastore import EmbeddedMetastore
from server.console import built_console
from tests.browser import OpenPage, pages_of, running_chromium
from tests.hive_engine import HiveEngine
from tests.hive_lake import Side
from tests.spark_fixtures import ServerProcess, server_process

PLANS_WHEN_ASKED = {"FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "3600", "FIRN_BACKGROUND__HIVE_INDEX_SECONDS": "3600"}


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive") / "metastore", port=0, locks=True) as running:
        yield running


@pytest.fixture(scope="session")
def server(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose catalog `lake` is linked to the metastore."""
    directory = tmp_path_factory.mktemp("firn") / "data"
    with server_process(directory, FIRN_METASTORE=metastore.uri, **PLANS_WHEN_ASKED) as running:
        yield running


@pytest.fixture(scope="session")
def side(
    metastore: EmbeddedMetastore, server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Side]:
    """Hive's side of the metastore: a Spark with Hive's catalog, which reads the server's tables and runs its jobs."""
    engine = HiveEngine(metastore.uri, tmp_path_factory.mktemp("engine"))
    engine.sql("CREATE DATABASE db")
    engine.attach(server.url)
    yield Side(server, engine, tmp_path_factory.mktemp("tables"))
    engine.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert built_console() is not None, "the console is not built: make console"
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    with pages_of(browser) as opened:
        yield opened
