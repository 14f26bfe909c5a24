"""Dropping, bringing back, purging and protecting a table in the console."""

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
    with server_process(tmp_path_factory.mktemp("dropping") / "data") as server:
        yield server


def create_table(server: ServerProcess, name: str, *, keyed: bool = False) -> str:
    columns = [{"name": "id", "type": "long"}]
    body = {"name": name, "columns": columns, "primary_key": ["id"] if keyed else []}
    return str(server.post("catalogs/lake/tables", body)["id"])


def drop(server: ServerProcess, name: str) -> None:
    httpx.delete(f"{server.url}/api/v1/catalogs/lake/tables/{name}").raise_for_status()


def test_a_table_is_dropped_and_brought_back(server: ServerProcess, open_page: OpenPage) -> None:
    table_id = create_table(server, "web.visits", keyed=True)
    page = open_page(f"{server.url}/c/lake/tables/web.visits")
    page.get_by_role("button", name="more actions").click()
    page.get_by_role("menuitem", name="Drop table").click()
    expect(page.get_by_role("dialog")).to_contain_text("For 7 d you can undrop it")
    assert violations(page) == []
    page.get_by_role("button", name="Drop it").click()
    expect(page.get_by_role("table", name="dropped tables")).to_contain_text("web.visits")
    expect(page.get_by_role("table", name="dropped tables")).to_contain_text("files stay")
    page.get_by_role("button", name="Undrop").click()
    expect(page.get_by_role("dialog")).to_contain_text("The server checked 2 files in use: none is missing.")
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Undrop").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("web.visits")
    assert server.get("catalogs/lake/tables/web.visits")["id"] == table_id


def test_a_name_that_is_taken_is_said_before_anything_is_done(server: ServerProcess, open_page: OpenPage) -> None:
    create_table(server, "web.taken")
    drop(server, "web.taken")
    create_table(server, "web.taken")
    page = open_page(f"{server.url}/c/lake/tables?kind=dropped&search=taken")
    page.get_by_role("button", name="Undrop").click()
    expect(page.get_by_role("alert")).to_contain_text("there is another table of that name")
    page.get_by_label("Name", exact=True).fill("web.other")
    expect(page.get_by_role("dialog")).to_contain_text("would come back")
    page.get_by_role("dialog").get_by_role("button", name="Undrop").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("web.other")


def test_a_purge_says_what_will_happen_and_the_table_leaves_the_list(
    server: ServerProcess, open_page: OpenPage
) -> None:
    create_table(server, "web.old")
    drop(server, "web.old")
    page = open_page(f"{server.url}/c/lake/tables?kind=dropped&search=old")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone")
    assert violations(page) == []
    page.get_by_role("button", name="Delete its files").click()
    expect(page.get_by_text("No dropped tables")).to_be_visible()


def test_a_protected_table_cannot_be_dropped_and_says_why(server: ServerProcess, open_page: OpenPage) -> None:
    create_table(server, "web.precious")
    page = open_page(f"{server.url}/c/lake/tables/web.precious")
    page.get_by_label("protected against dropping").click()
    expect(page.get_by_label("protected against dropping")).to_be_checked()
    page.get_by_role("button", name="more actions").click()
    expect(page.get_by_role("menuitem", name="it is protected")).to_be_disabled()
    assert server.get("catalogs/lake/tables/web.precious")["protected"] is True
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    assert violations(page) == []


def test_how_long_a_catalog_keeps_dropped_tables_is_set_in_settings(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/settings")
    button = page.get_by_role("button", name="change how long lake keeps dropped tables")
    expect(button).to_have_text("7 d")
    button.click()
    dialog = page.get_by_role("dialog", name="Dropped tables of lake")
    assert violations(page) == []
    wanted = dialog.get_by_label("Keep them for")
    wanted.fill("soon")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("firn.drop.retention")
    dialog.get_by_text("Applies to tables dropped from now on").click()
    expect(page).to_have_url(f"{server.url}/settings")
    wanted.fill("30 d")
    page.keyboard.press("Enter")
    expect(button).to_have_text("30 d")
    assert server.get("catalogs/lake")["properties"] == {"firn.drop.retention": "30 d"}
    button.click()
    wanted.fill("0")
    page.keyboard.press("Enter")
    expect(button).to_have_text("not at all")
    httpx.patch(
        f"{server.url}/api/v1/catalogs/lake/properties", json={"set": {}, "remove": ["firn.drop.retention"]}
    ).raise_for_status()
