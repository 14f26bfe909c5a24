"""Every page: readable by everybody in light and dark, usable without a mouse, honest about what cannot be done."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser import OpenPage, settled, violations
from tests.hive_data import FULL_NAME
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.hive]

KEYED = {
    "name": "web.visits",
    "columns": [{"name": "id", "type": "long"}, {"name": "page", "type": "string", "comment": "path, no query"}],
    "primary_key": ["id"],
}
PAGES = {
    "home": "/c/lake",
    "tables": "/c/lake/tables",
    "no tables": "/c/lake/tables?search=nothing-is-called-this",
    "schema": "/c/lake/tables/web.visits",
    "layout": "/c/lake/tables/web.visits?tab=layout",
    "snapshots": "/c/lake/tables/web.visits?tab=snapshots",
    "jobs of a table": "/c/lake/tables/web.visits?tab=jobs",
    "policy": "/c/lake/tables/web.visits?tab=policy",
    "policies": "/c/lake/policies",
    "policies of a database": "/c/lake/policies?database=web",
    "properties": "/c/lake/tables/web.visits?tab=properties",
    "snippets": "/c/lake/tables/web.visits?tab=use",
    "hive": "/c/lake/hive",
    "found": f"/c/lake/hive/{FULL_NAME}/upgrade",
    "checks": f"/c/lake/hive/{FULL_NAME}/upgrade?step=1",
    "key": f"/c/lake/hive/{FULL_NAME}/upgrade?step=2&key=id",
    "consequences": f"/c/lake/hive/{FULL_NAME}/upgrade?step=3&key=id",
    "blocked": "/c/lake/hive/shop.raw/upgrade?step=1",
    "jobs": "/jobs",
    "optimizers": "/optimizers",
    "settings": "/settings",
    "no such table": "/c/lake/tables/web.none",
    "no such page": "/nowhere",
}


@pytest.fixture(scope="module")
def server(linked_server: ServerProcess) -> ServerProcess:
    linked_server.post("catalogs/lake/tables", KEYED)
    linked_server.post("catalogs/lake/tables/web.visits/jobs", {"kind": "rewrite"})
    return linked_server


@pytest.mark.parametrize("page_name", PAGES)
def test_axe_finds_nothing_wrong_in_light_and_dark(server: ServerProcess, open_page: OpenPage, page_name: str) -> None:
    page = open_page(f"{server.url}{PAGES[page_name]}")
    settled(page)
    assert violations(page) == []


@pytest.mark.parametrize("width", [1440, 1000])
@pytest.mark.parametrize("page_name", ["home", "schema", "hive", "settings"])
def test_no_page_is_wider_than_its_window(
    server: ServerProcess, open_page: OpenPage, page_name: str, width: int
) -> None:
    page = open_page(f"{server.url}{PAGES[page_name]}", width=width)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture(scope="module")
def indexed(server: ServerProcess) -> ServerProcess:
    """The server, when its search has the tables."""
    end = time.monotonic() + 60
    names = {"table": "web.visits", "hive_table": "raw"}
    while not all(server.get(f"search?q={name}&kinds={kind}")["hits"] for kind, name in names.items()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return server


def test_a_table_is_found_and_opened_by_keyboard_alone(indexed: ServerProcess, open_page: OpenPage) -> None:
    server = indexed
    page = open_page(f"{server.url}/c/lake")
    settled(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("textbox", name="search")).to_be_focused()
    page.keyboard.type("web.visi")
    expect(page.get_by_role("button", name="web.visits keyed")).to_be_visible()
    settled(page)  # later answers of the search put other hits before it
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/c/lake/tables/web.visits")
    expect(page.get_by_role("heading", level=1)).to_contain_text("web.visits")
    settled(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("button", name="web.visits", exact=True)).to_be_visible()
    assert violations(page) == []


def test_the_search_finds_columns_hive_tables_settings_and_pages(indexed: ServerProcess, open_page: OpenPage) -> None:
    server = indexed
    page = open_page(f"{server.url}/c/lake", width=390)
    settled(page)
    page.get_by_role("button", name="Search").click()
    search = page.get_by_role("textbox", name="search")
    search.fill("page path")
    expect(page.get_by_role("button", name='web.visits column page: "path, no query"')).to_be_visible()
    assert violations(page) == []
    search.fill("shop.raw")
    expect(page.get_by_role("button", name="shop.raw")).to_be_visible()
    search.fill("undrop")
    expect(page.get_by_role("button", name="Dropped tables")).to_be_visible()
    search.fill('nothing "is" like * this')
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    search.fill("firn.merge.mode")
    page.get_by_role("button", name="firn.merge.mode").first.click()
    expect(page).to_have_url(f"{server.url}/c/lake/policies?find=firn.merge.mode")


def test_the_search_opens_only_what_fits_while_the_server_is_asked_again(
    indexed: ServerProcess, open_page: OpenPage
) -> None:
    server = indexed
    page = open_page(f"{server.url}/c/lake")
    settled(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("textbox", name="search")).to_be_focused()
    page.keyboard.type("visi")
    hit = page.get_by_role("button", name="web.visits keyed")
    expect(hit).to_be_visible()
    page.route("**/search?*", lambda _route: None)  # it is never answered
    page.keyboard.type("x")
    expect(hit).to_be_hidden()
    page.keyboard.press("Enter")
    page.keyboard.press("Backspace")
    page.keyboard.type("ts")
    page.wait_for_timeout(500)  # longer than a pause in typing lasts
    expect(page).to_have_url(f"{server.url}/c/lake")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/c/lake/tables/web.visits")


def test_arrow_keys_walk_through_a_list(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/hive")
    page.get_by_role("link", name="shop.orders", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="shop.raw", exact=True)).to_be_focused()


def test_a_button_that_cannot_be_pressed_says_why(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/hive")
    page.get_by_role("button", name="Upgrade", exact=True).focus()
    expect(page.get_by_role("tooltip")).to_contain_text("Select tables first")


def test_a_filter_is_in_the_address(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables")
    page.get_by_text("Plain", exact=True).click()
    expect(page).to_have_url(re.compile(r"kind=plain"))
    expect(page.get_by_text("No matching tables")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No matching tables")).to_be_visible()


def test_a_keyed_table_is_created_in_a_dialog(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables")
    page.get_by_role("button", name="Create table").first.click()
    page.get_by_label("Name", exact=True).fill("web.sessions")
    page.get_by_label("name of column 2").fill("started_at")
    page.get_by_role("combobox", name="type of column 2").fill("timestamptz")
    assert violations(page) == []
    page.get_by_role("button", name="Create keyed table").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("web.sessions")
    created = server.get("catalogs/lake/tables/web.sessions")
    assert (created["kind"], created["primary_key"]) == ("keyed", ["id"])
    assert [column["type"] for column in created["columns"]] == ["long", "timestamptz"]


def test_a_refusal_is_shown_in_the_servers_words(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables")
    page.get_by_role("button", name="Create table").first.click()
    page.get_by_label("Name", exact=True).fill("web.visits")
    page.get_by_role("button", name="Create keyed table").click()
    expect(page.get_by_role("alert")).to_contain_text("web.visits")


@pytest.fixture
def mortal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("mortal") / "data") as server:
        yield server


def test_a_page_says_when_the_server_has_gone(mortal_server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{mortal_server.url}/settings")
    expect(page.get_by_text("run by this server")).to_be_visible()
    mortal_server.process.terminate()
    mortal_server.process.wait(60)
    expect(page.get_by_role("status")).to_contain_text("The server does not answer")
    expect(page.get_by_role("status")).to_contain_text("What you see is from")
