"""History, tags, rollback and views in a real browser, on tables that PyIceberg writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import DoubleType

from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
TABLE = "/c/lake/tables/shop.orders"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-history") / "data") as running:
        columns = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
        running.post("catalogs/lake/tables", {"name": "shop.orders", "columns": columns})
        running.post("catalogs/lake/tables", {"name": "shop.keyed", "columns": columns, "primary_key": ["id"]})
        written = table(running)
        for start in (0, 2):
            written.append(pa.table({"id": [start, start + 1], "note": ["a", "b"]}))
        with written.update_schema() as update:
            update.add_column("price", DoubleType())
            update.rename_column("note", "label")
        make_view(running)
        yield running


def table(server: ServerProcess, name: str = "shop.orders") -> Any:
    return RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake").load_table(name)


def make_view(server: ServerProcess) -> None:
    for number, sql in enumerate(("select id\nfrom shop.orders", "select id\nfrom shop.orders\nwhere id > 1"), 1):
        version = {
            "version-id": number,
            "timestamp-ms": 1_700_000_000_000,
            "schema-id": 0,
            "summary": {"engine-name": "spark", "engine-version": "4.1.4"},
            "default-namespace": ["shop"],
            "representations": [{"type": "sql", "dialect": "spark", "sql": sql}],
        }
        updates = [
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        base = "/iceberg/v1/lake/namespaces/shop/views"
        view = {"name": "big", "schema": SCHEMA, "view-version": version, "properties": {}}
        sent = (base, view) if number == 1 else (f"{base}/big", {"requirements": [], "updates": updates})
        answer = server.http.post(sent[0], json=sent[1])
        assert answer.is_success, answer.text


def settled(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle")


def test_the_history_tells_what_changed_and_a_link_opens_the_entry(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}{TABLE}?tab=history")
    page.get_by_role("link", name=re.compile("added column price")).first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_text("renamed column note to label")).to_be_visible()
    drawer.get_by_role("button", name="Compare with now").click()
    expect(drawer.get_by_text("Columns, properties and layout are the same.")).to_be_visible()
    again = open_page(page.url)
    expect(again.get_by_role("dialog").get_by_text("added column price (double)")).to_be_visible()
    again.keyboard.press("Escape")
    expect(again.get_by_role("dialog")).to_be_hidden()
    again.get_by_text("Schema", exact=True).last.click()
    expect(again.get_by_role("table", name="history").get_by_text("append")).to_have_count(0)


def test_a_state_is_tagged_and_the_table_rolled_back_after_saying_what_leaves(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}{TABLE}?tab=history")
    page.get_by_role("link", name=re.compile("append: ")).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Tag this state").click()
    page.get_by_role("textbox", name="Name").fill("before")
    page.keyboard.press("Enter")
    tags = page.get_by_role("table", name="branches and tags")
    expect(tags.get_by_role("row", name=re.compile("^before tag"))).to_be_visible()
    page.get_by_role("tab", name="History").click()
    page.get_by_role("link", name=re.compile("append: ")).last.click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back to this").click()
    asking = page.get_by_role("dialog", name="Roll back shop.orders")
    expect(asking.get_by_text("take from main 1 commit with 2 rows added and 0 removed")).to_be_visible()
    expect(asking.get_by_text("before", exact=True)).to_be_visible()
    assert table(server).scan().to_arrow().num_rows == 4
    asking.get_by_role("button", name="Roll back").click()
    expect(asking).to_be_hidden()
    expect(page.get_by_role("table", name="history").get_by_text("rollback")).to_be_visible()
    assert sorted(table(server).scan().to_arrow()["id"].to_pylist()) == [0, 1]


def test_a_commit_made_while_the_dialog_is_open_is_not_rolled_back(server: ServerProcess, open_page: OpenPage) -> None:
    server.post("catalogs/lake/tables", {"name": "shop.late", "columns": [{"name": "id", "type": "long"}]})
    for number in (1, 2):
        table(server, "shop.late").append(pa.table({"id": [number]}))
    first = table(server, "shop.late").history()[0].snapshot_id
    page = open_page(f"{server.url}/c/lake/tables/shop.late?tab=history&rollback=choose")
    asking = page.get_by_role("dialog", name="Roll back shop.late")
    asking.get_by_role("textbox", name="snapshot, branch or tag").fill(str(first))
    page.keyboard.press("Enter")
    expect(asking.get_by_text("take from main 1 commit with 1 row added")).to_be_visible()
    table(server, "shop.late").append(pa.table({"id": [3]}))
    asking.get_by_role("button", name="Roll back").click()
    expect(asking.get_by_text(re.compile("main is at snapshot .*, not at"))).to_be_visible()
    assert sorted(table(server, "shop.late").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    asking.get_by_role("button", name="Preview again").click()
    expect(asking.get_by_text("take from main 2 commits with 2 rows added")).to_be_visible()


def test_a_keyed_table_says_why_it_cannot_be_rolled_back(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.keyed?tab=history")
    button = page.get_by_role("button", name="Roll back")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("aria-description", re.compile("only move together"))


def test_a_view_has_a_page_and_goes_back_to_a_version(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.big")
    expect(page.get_by_label("SQL for spark", exact=True)).to_contain_text("where id > 1")
    page.get_by_role("tab", name="History").click()
    page.get_by_role("link", name=re.compile("changed the SQL for spark")).click()
    expect(page.get_by_role("dialog").get_by_text("+ where id > 1")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("row", name=re.compile("^1 spark")).get_by_role("button", name="Roll back").click()
    asking = page.get_by_role("dialog")
    expect(asking.get_by_text("- where id > 1")).to_be_visible()
    asking.get_by_role("button", name="Roll back", exact=True).click()
    expect(asking).to_be_hidden()
    page.get_by_role("tab", name="SQL").click()
    expect(page.get_by_label("SQL for spark", exact=True)).not_to_contain_text("where id > 1")


@pytest.mark.parametrize(
    "path",
    [
        f"{TABLE}?tab=history",
        f"{TABLE}?tab=refs",
        f"{TABLE}?tab=refs&new=main",
        f"{TABLE}?tab=history&rollback=before",
        "/c/lake/tables/shop.big",
        "/c/lake/tables/shop.big?tab=versions",
        "/c/lake/tables/shop.big?tab=history",
    ],
)
def test_axe_finds_nothing_wrong_in_light_and_dark(server: ServerProcess, open_page: OpenPage, path: str) -> None:
    page = open_page(f"{server.url}{path}")
    settled(page)
    assert violations(page) == []


def test_changed_rows_are_followed_and_a_writer_and_a_consumer_are_ended(
    server: ServerProcess, open_page: OpenPage
) -> None:
    keyed = table(server, "shop.keyed")
    at = "catalogs/lake/tables/shop.keyed"

    def write(*notes: str) -> None:
        rows = [{"id": number, "note": note} for number, note in enumerate(notes)]
        keyed.append(pa.Table.from_pylist(rows, schema=keyed.schema().as_arrow()))

    write("<b>bold</b>", "b")
    server.post(f"{at}/writers/sensors")
    server.post(f"{at}/consumers/web shop", {})
    page = open_page(f"{server.url}/c/lake/tables/shop.keyed?tab=changes")
    rows = page.get_by_role("group", name="changed rows")
    expect(rows).to_contain_text("<b>bold</b>")
    assert violations(page) == []
    page.get_by_role("switch", name="follow").click()
    expect(page.get_by_text("Waiting for the next change")).to_be_visible()
    write("quiet")
    expect(rows.get_by_role("row", name="updated 0 note <b>bold</b> quiet")).to_be_visible()

    page.get_by_role("tab", name="Writers and consumers").click()
    page.get_by_role("button", name="fence sensors").click()
    expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone")
    assert violations(page) == []
    page.get_by_role("button", name="Fence it for good").click()
    expect(page.get_by_role("table", name="writers")).to_contain_text("fenced for good")
    page.get_by_role("button", name="reset web shop").click()
    expect(page.get_by_role("dialog")).to_contain_text("It skips the changes of version 2, and never reads them.")
    page.get_by_role("button", name="Reset it").click()
    expect(page.get_by_role("table", name="consumers")).to_contain_text("up to date")
    assert server.get(f"{at}/consumers/web shop")["version"] == 2


def test_bad_records_are_counted_and_dropped_as_the_user_has_seen_them(
    server: ServerProcess, open_page: OpenPage
) -> None:
    log = {"firn.log.topic": "t", "firn.log.brokers": "127.0.0.1:1", "firn.log.format": "firn-json"}
    columns = [{"name": "id", "type": "long"}]
    logged_table = {"name": "shop.logged", "columns": columns, "primary_key": ["id"], "properties": log}
    server.post("catalogs/lake/tables", logged_table)
    at = "catalogs/lake/tables/shop.logged"
    page = open_page(f"{server.url}/c/lake/tables/shop.logged?tab=quarantine")
    expect(page.get_by_text("No bad records")).to_be_visible()
    epoch = server.post(f"{at}/writers/log")["epoch"]
    server.post(f"{at}/log/quarantine/writer", {"epoch": epoch, "create": True})
    bad = table(server, "shop.logged.quarantine")
    record = {"reason": "r", "column": "id", "partition": 0, "offset": 5, "value": b'{"id": "<b>x</b>"}'}
    rows = pa.Table.from_pylist([record], schema=bad.schema().as_arrow())
    bad.append(rows)
    page.reload()
    expect(page.get_by_role("table", name="reasons")).to_contain_text("r")
    page.get_by_role("button", name="show the record at offset 5 of partition 0").click()
    expect(page.get_by_label("value", exact=True)).to_have_text('{"id": "<b>x</b>"}')
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="close").click()
    expect(page.get_by_role("heading", name="1 bad record")).to_be_visible()
    expect(page.get_by_label("retry command", exact=True)).to_have_text("firn quarantine retry shop.logged")
    assert violations(page) == []
    page.get_by_role("button", name="Drop…").click()
    expect(page.get_by_role("dialog")).to_contain_text("stay missing in shop.logged")
    assert violations(page) == []
    bad.append(rows)
    page.get_by_role("button", name="Drop them").click()
    expect(page.get_by_role("dialog")).to_contain_text("has changed since you looked")
    page.reload()
    page.get_by_role("button", name="Drop…").click()
    page.get_by_role("button", name="Drop them").click()
    expect(page.get_by_text("No bad records")).to_be_visible()
