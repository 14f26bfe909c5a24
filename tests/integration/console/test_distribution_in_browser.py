"""Distributions of columns on a table's page in a real browser: chart, table, refusals, and a canceled count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, Route, expect
from pyiceberg.catalog.rest import RestCatalog

from tests.browser import OpenPage, settled, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
ROWS = pa.table(
    {
        "amount": pa.array([float(number % 97) for number in range(1_000)]),
        HOSTILE: pa.array(["paid", "open", HOSTILE, "paid", None] * 200),
        "address": pa.array([{"city": "Rome"}] * 1_000),
        "nothing": pa.array([None] * 1_000, pa.int64()),
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-distribution") / "data") as running:
        lake: Any = RestCatalog("lake", uri=f"{running.url}/iceberg", warehouse="lake")
        lake.create_namespace("shop")
        lake.create_table("shop.sales", ROWS.schema).append(ROWS)
        yield running


def open_distribution(page: Page, server: ServerProcess, column: str) -> Any:
    page.goto(f"{server.url}/c/lake/tables/shop.sales?tab=schema")
    settled(page)
    page.get_by_role("button", name=f"distribution of {column}", exact=True).click()
    dialog = page.get_by_role("dialog", name=f"Distribution of {column}")
    expect(dialog).to_be_visible()
    return dialog


def test_numbers_are_drawn_and_listed(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(server.url)
    dialog = open_distribution(page, server, "amount")
    expect(dialog.get_by_role("img", name=re.compile("amount: 20 bars, most rows in"))).to_be_visible()
    expect(dialog.locator("canvas")).to_be_visible()
    expect(dialog.get_by_role("table").locator("tbody tr")).to_have_count(20)
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="distribution of amount")).to_be_focused()


def test_texts_are_listed_with_bars_also_on_a_phone(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(server.url, width=390)
    dialog = open_distribution(page, server, HOSTILE)
    rows = dialog.get_by_role("table").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("paid")
    expect(rows.nth(0)).to_contain_text("50.0 %")
    expect(dialog).to_contain_text(HOSTILE)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_cannot_be_drawn_says_why(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(server.url)
    expect(open_distribution(page, server, "address").get_by_role("alert")).to_contain_text("address is a struct")
    expect(open_distribution(page, server, "nothing")).to_contain_text("All values are null")
    assert violations(page) == []


def test_a_count_is_canceled_and_begun_again(server: ServerProcess, open_page: OpenPage) -> None:
    """The page hears that the query runs for as long as the test wants: a real one may end at once."""
    page = open_page(server.url)
    is_held = True

    def hold(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        if is_held and body["query"]["state"] == "done":
            body = {"query": {**body["query"], "state": "running"}, "distribution": None}
        route.fulfill(response=answer, json=body)

    page.route("**/distributions*", hold)
    page.route("**/distributions/*", hold)
    dialog = open_distribution(page, server, "amount")
    expect(dialog.get_by_role("status")).to_contain_text("Running")
    assert violations(page) == []
    with page.expect_request(lambda request: request.method == "DELETE" and "/queries/" in request.url):
        dialog.get_by_role("button", name="Cancel").click()
    with page.expect_request(lambda request: request.method == "DELETE" and "/queries/" in request.url):
        page.keyboard.press("Escape")  # nobody waits for it any more
    is_held = False
    dialog = open_distribution(page, server, "amount")
    expect(dialog.locator("canvas")).to_be_visible()


def test_a_server_that_reads_no_rows_says_so(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(server.url)

    def switch_off(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "enabled": False})

    page.route("**/queries/settings", switch_off)
    dialog = open_distribution(page, server, "amount")
    expect(dialog).to_contain_text("Reading rows is switched off on this server")
    assert violations(page) == []
