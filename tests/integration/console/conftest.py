"""The console as it is built, served by a real server, driven in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from firn.embedded.metastore import EmbeddedMetastore
from server.console import built_console
from tests.integration.console.hive_data import make_nested, make_orders
from tests.spark_fixtures import ServerProcess, server_process

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SLOWEST_MS = 30_000

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session", autouse=True)
def _console_is_built() -> None:
    assert built_console() is not None, "the console is not built: make console"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=SLOWEST_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address in a browser of its own; at the end nothing may have been written to its console."""
    complaints: list[str] = []
    contexts = []

    def opened(url: str, *, width: int = 1440) -> Page:
        context = browser.new_context(color_scheme="light", viewport={"width": width, "height": 900})
        contexts.append(context)
        context.set_default_timeout(SLOWEST_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


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


def violations(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is, and in dark, in which nothing but the colours is another."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    light = _found(page, "{}")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    dark = _found(page, "{runOnly: ['color-contrast']}")
    page.emulate_media(color_scheme="light")
    return [*light, *(f"in dark: {one}" for one in dark)]


def _found(page: Page, rules: str) -> list[str]:
    # Animations that are still running have colours of their own.
    page.wait_for_timeout(400)
    run = f"axe.run(document, {{resultTypes: ['violations'], ...{rules}}})"
    found = page.evaluate(f"{run}.then(result => result.violations)")
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
