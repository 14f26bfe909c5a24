"""Importing a warehouse in the console: first what would happen, then the import."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A table was dropped and its files stayed: a warehouse has them and no catalog does."""
    with server_process(tmp_path_factory.mktemp("console-import") / "data") as running:
        running.post("catalogs/lake/tables", {"name": "web.left", "columns": [{"name": "id", "type": "long"}]})
        httpx.delete(f"{running.url}/api/v1/catalogs/lake/tables/web.left").raise_for_status()
        yield running


def test_a_warehouse_is_looked_at_and_then_registered(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/settings")
    page.get_by_role("link", name="Import tables into lake").click()
    page.get_by_label("Directory of the warehouse").fill((server.data_dir / "warehouse").as_uri())
    page.get_by_label("Target namespace").fill("moved")
    assert violations(page) == []
    page.get_by_role("button", name="Scan").click()
    expect(page.get_by_role("heading", name="Dry run")).to_be_visible()
    candidates = page.get_by_role("table", name="found tables")
    row = candidates.get_by_role("row").filter(has_text="moved.web.left")
    expect(row).to_contain_text("can be registered")
    assert violations(page) == []
    assert httpx.get(f"{server.url}/api/v1/catalogs/lake/tables/moved.web.left").status_code == 404
    page.get_by_role("button", name="Register").click()
    expect(row).to_contain_text("registered")
    page.get_by_role("link", name="moved.web.left").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("moved.web.left")
    assert server.get("catalogs/lake/tables/moved.web.left")["kind"] == "plain"
