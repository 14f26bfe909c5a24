"""The console as it is built, served by a real server, driven in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from firn.embedded.metastore import EmbeddedMetastore
from server.console import built_console
from tests.browser import OpenPage, pages_of, running_chromium
from tests.hive_data import make_nested, make_orders
from tests.spark_fixtures import ServerProcess, server_process


@pytest.fixture(scope="session", autouse=True)
def _console_is_built() -> None:
    assert built_console() is not None, "the console is not built: make console"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    with pages_of(browser) as opened:
        yield opened


@pytest.fixture(scope="package")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(tmp_path_factory.mktemp("console-hive"), port=0) as process:
        make_orders(process.uri, process.warehouse)
        make_nested(process.uri, process.warehouse)
        yield process


@pytest.fixture(scope="module")
def linked_server(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose catalog `lake` is linked to the metastore; it plans nothing by itself."""
    data_dir = tmp_path_factory.mktemp("console") / "data"
    with server_process(data_dir, FIRN_METASTORE=metastore.uri) as server:
        server.post("catalogs/lake/hive/refresh")
        yield server
