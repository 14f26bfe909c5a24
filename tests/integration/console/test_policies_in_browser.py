"""Policies in a real browser: what holds and from where, changed where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

ROWS = "firn.merge.max-pending-rows"
AGE = "firn.expire.max-age"
GROUP = "firn.optimize.group"
MODE = "firn.merge.mode"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-policies") / "data") as running:
        columns = [{"name": "id", "type": "long"}]
        running.post("catalogs/lake/tables", {"name": "web.visits", "columns": columns, "primary_key": ["id"]})
        yield running


def setting(page: Page, key: str) -> Locator:
    return page.get_by_role("table", name="policy").get_by_role("row").filter(has=page.get_by_text(key, exact=True))


def change(page: Page, key: str, value: str) -> None:
    """By keyboard alone."""
    setting(page, key).get_by_role("button", name=re.compile("^change")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name=f"value of {key}")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type(value)
    page.keyboard.press("Enter")


def test_a_value_is_set_on_a_table_and_removed_again_by_keyboard(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/web.visits?tab=policy")
    change(page, ROWS, "1234")
    expect(setting(page, ROWS)).to_contain_text("this table")
    expect(setting(page, ROWS).get_by_role("button", name=f"change {ROWS}, now 1234")).to_be_focused()
    setting(page, ROWS).get_by_role("button", name=f"remove the value of {ROWS}").press("Enter")
    expect(setting(page, ROWS)).to_contain_text("default")
    expect(setting(page, ROWS)).to_contain_text("500000")


def test_a_refused_value_stays_with_the_servers_words_until_it_is_left(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/c/lake/tables/web.visits?tab=policy")
    change(page, AGE, "soon")
    expect(page.get_by_role("alert")).to_contain_text("'soon' is not a number with a unit")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(setting(page, AGE)).to_contain_text("5 d")


def test_one_of_a_few_values_is_picked_by_keyboard(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/web.visits?tab=policy")
    setting(page, MODE).get_by_role("button", name=re.compile("^change")).press("Enter")
    expect(page.get_by_role("combobox", name=f"value of {MODE}")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option")).to_have_text(["auto", "rewrite", "vectors", "adopt"])
    page.keyboard.press("Escape")
    expect(page.get_by_role("option")).to_have_count(0)
    assert violations(page) == []
    expect(page.get_by_role("combobox", name=f"value of {MODE}")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.get_by_role("option", name="vectors").click()
    page.get_by_role("button", name=f"set {MODE} on").press("Enter")
    expect(setting(page, MODE)).to_contain_text("this table")
    expect(setting(page, MODE)).to_contain_text("vectors")


def test_a_table_leads_to_where_its_value_is_set(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/policies?database=web")
    change(page, GROUP, "nightly")
    expect(setting(page, GROUP)).to_contain_text("this database")
    page.goto(f"{server.url}/c/lake/tables/web.visits?tab=policy&find=group")
    expect(setting(page, GROUP)).to_contain_text("nightly")
    setting(page, GROUP).get_by_role("link", name="web").click()
    expect(page).to_have_url(re.compile("/policies.database=web&find=firn.optimize.group"))
    expect(page.get_by_role("heading", name="Database web")).to_be_visible()
    expect(setting(page, GROUP)).to_contain_text("this database")


def test_what_others_set_meanwhile_stays(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/policies")
    expect(setting(page, AGE)).to_contain_text("5 d")
    path = "/api/v1/catalogs/lake/policy"
    server.http.patch(path, json={"set": {"firn.expire.min-snapshots": "3"}}).raise_for_status()
    change(page, AGE, "2 d")
    expect(setting(page, AGE)).to_contain_text("this catalog")
    held = server.get("catalogs/lake/policy")["settings"]
    assert held == {"firn.expire.min-snapshots": "3", AGE: "2 d"}


def test_settings_are_found_by_words_and_the_address_keeps_them(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/policies?database=web")
    page.get_by_role("textbox", name="search the settings").fill("orphan quarantine")
    expect(page).to_have_url(re.compile("find=orphan"))
    expect(setting(page, "firn.orphans.quarantine")).to_be_visible()
    expect(setting(page, AGE)).to_have_count(0)
    page.reload()
    expect(setting(page, "firn.orphans.quarantine")).to_be_visible()
    page.get_by_role("textbox", name="search the settings").fill("nothing is called this")
    page.get_by_role("button", name="Show all").click()
    expect(setting(page, AGE)).to_be_visible()
