"""The SQL page and previews in a real browser: editor, results, downloads, history and saved statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, Page, expect
from pyiceberg.catalog.rest import RestCatalog

from firn.protocol.leases import PROTOCOL
from tests.browser import OpenPage, settled, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
STATEMENT = "SELECT label, count(*) AS n, sum(amount) AS total FROM sales GROUP BY label ORDER BY n, label"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-sql") / "data") as running:
        columns = [{"name": name, "type": kind} for name, kind in (("id", "long"), ("label", "string"))]
        running.post("catalogs/lake/tables", {"name": "shop.stock", "columns": columns, "primary_key": ["id"]})
        numbers = [{"name": "label", "type": "string"}, {"name": "amount", "type": "double"}]
        running.post("catalogs/lake/tables", {"name": "shop.sales", "columns": numbers})
        lake: Any = RestCatalog("lake", uri=f"{running.url}/iceberg", warehouse="lake")
        sales, stock = lake.load_table("shop.sales"), lake.load_table("shop.stock")
        sales.append(pa.table({"label": ["a", "b", "b", HOSTILE] * 100, "amount": [1.0, 2.0, None, 10.0] * 100}))
        for rows in ([{"id": 1, "label": "old"}, {"id": 2, "label": "kept"}], [{"id": 1, "label": "new"}]):
            stock.append(pa.Table.from_pylist(rows, schema=stock.schema().as_arrow()))
        yield running


def write(page: Page, statement: str) -> None:
    editor = page.get_by_label("SQL", exact=True)
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(statement)


def run(page: Page, statement: str) -> None:
    write(page, statement)
    page.keyboard.press("ControlOrMeta+Enter")


def first_column(page: Page) -> Locator:
    """The cells of the first column of the result, which may not have come yet."""
    return page.get_by_role("table", name="result").locator("tbody tr td:first-child")


def test_a_statement_is_written_run_ordered_drawn_and_downloaded(
    server: ServerProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(f"{server.url}/c/lake/sql")
    settled(page)
    page.get_by_label("SQL", exact=True).click()
    page.keyboard.type("SELECT label, cou")
    expect(page.get_by_role("option", name="count(x)", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    page.keyboard.type("nt(*) FROM sales WHERE am")
    expect(page.get_by_role("option", name="amount")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    run(page, STATEMENT)
    expect(page.get_by_text("3 rows")).to_be_visible()
    expect(first_column(page)).to_have_text([HOSTILE, "a", "b"])
    assert violations(page) == []
    page.get_by_role("button", name="total double").click()
    expect(first_column(page)).to_have_text(["a", "b", HOSTILE])
    page.get_by_role("tab", name="Chart").click()
    expect(page.get_by_role("img", name="total by label, bars")).to_be_visible()
    assert violations(page) == []
    for name in ("CSV", "Parquet"):
        with page.expect_download() as downloading:
            page.get_by_role("button", name=name).click()
        downloading.value.save_as(tmp_path / name)
    assert (tmp_path / "CSV").read_text(encoding="utf-8").splitlines()[1] == f"{HOSTILE},100,1000.0"
    assert pq.read_table(tmp_path / "Parquet").column_names == ["label", "n", "total"]
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_label("plan")).to_contain_text("HASH_GROUP_BY")


def test_a_keyed_table_shows_its_merged_rows_here_and_in_its_preview(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.stock?tab=preview")
    rows = page.get_by_role("table", name="first rows")
    expect(rows.get_by_role("row", name="1 new")).to_be_visible()
    expect(rows).not_to_contain_text("old")
    assert violations(page) == []
    page.get_by_role("link", name="Open in SQL").click()
    settled(page)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("2 rows")).to_be_visible()
    expect(first_column(page)).to_have_count(2)
    assert sorted(first_column(page).all_inner_texts()) == ["1", "2"]


def test_refusals_and_failures_say_what_to_do_and_a_long_query_is_canceled(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/c/lake/sql", width=390)
    settled(page)
    run(page, "DROP TABLE sales")
    expect(page.get_by_role("alert")).to_contain_text("DROP is not a query")
    run(page, "SELECT nothing FROM sales")
    expect(page.get_by_role("alert")).to_contain_text('column "nothing" not found')
    run(page, "SELECT sum(a.x * b.x) FROM range(10000000) a(x), range(10000000) b(x)")
    expect(page.get_by_text(re.compile("Running"))).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The query was canceled")).to_be_visible()


def test_statements_are_kept_shared_and_found_again(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/sql")
    settled(page)
    run(page, "SELECT 1 AS first")
    expect(page.get_by_text("1 row")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("textbox", name="Name").fill("one")
    page.get_by_role("switch", name="Shared").click()
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    run(page, "SELECT 2 AS second")
    page.get_by_role("tab", name="Saved").click()
    page.get_by_role("button", name=re.compile("^one")).click()
    expect(page.get_by_label("SQL", exact=True)).to_contain_text("SELECT 1 AS first")
    page.get_by_role("tab", name="History").click()
    assert violations(page) == []
    page.get_by_role("button", name=re.compile("SELECT 2 AS second")).first.click()
    expect(page.get_by_label("SQL", exact=True)).to_contain_text("SELECT 2 AS second")
    expect(first_column(page)).to_have_text(["2"])
    page.get_by_role("tab", name="Saved").click()
    page.get_by_role("button", name="delete one").click()
    expect(page.get_by_text("Nothing is saved yet")).to_be_visible()
    page.get_by_role("tab", name="Tables").click()
    page.get_by_role("button", name="shop.sales").press("Enter")
    page.get_by_role("list", name="columns of shop.sales").get_by_role("button", name="amount").click()
    expect(page.get_by_label("SQL", exact=True)).to_contain_text("amount")


def test_a_table_is_described_and_its_columns_have_figures(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.sales")
    settled(page)
    page.get_by_role("button", name="edit the description of table shop.sales").click()
    form = page.get_by_role("form", name="description of table shop.sales")
    form.get_by_label("Description").fill(f"What was sold {HOSTILE}")
    form.get_by_label("Owner").fill("Team Sales")
    form.get_by_label("Labels").fill("PII")
    page.keyboard.press("Enter")
    expect(form.get_by_label("the same in a terminal", exact=True)).to_contain_text("--label pii")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(page.get_by_text(f"What was sold {HOSTILE}")).to_be_visible()
    page.get_by_role("tab", name="Schema").click()
    page.get_by_role("button", name="edit the comment of column amount").click()
    column = page.get_by_role("form", name="comment of column amount")
    column.get_by_label("Comment").fill("gross")
    page.keyboard.press("Enter")
    expect(column).to_have_count(0)
    row = page.get_by_role("table", name="schema").get_by_role("row").filter(has_text="amount")
    expect(row).to_contain_text("gross")
    expect(row.get_by_role("cell").nth(3)).to_have_text("100")
    expect(row.get_by_role("cell").nth(4)).to_have_text("1.0")
    expect(row.get_by_role("cell").nth(5)).to_have_text("10.0")
    assert violations(page) == []


def test_spark_is_chosen_while_an_optimizer_answers_queries(server: ServerProcess, open_page: OpenPage) -> None:
    """The optimizer is played by this test: it leases the query and sends one row."""
    page = open_page(f"{server.url}/c/lake/sql")
    settled(page)
    engines = page.get_by_role("radiogroup", name="engine")
    expect(engines.get_by_role("radio", name="Spark")).to_be_disabled()
    expect(page.get_by_text("Spark is not available: No optimizer answers queries.")).to_be_visible()
    expect(page.get_by_text("firn optimizer --sql 2")).to_be_visible()
    assert violations(page) == []
    body = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "facts": {"sql": 1}}
    optimizer = server.post("optimizers", body)["id"]
    page.reload()
    settled(page)
    engines.get_by_text("Spark").click()
    expect(page.get_by_text("Spark: an optimizer answers, in Spark SQL")).to_be_visible()
    run(page, "SELECT count(*) AS `n rows` FROM sales")
    expect(page.get_by_text("Waiting for an optimizer")).to_be_visible()
    assert violations(page) == []
    lease = server.post("query-leases", {"optimizer_id": optimizer, "wait_seconds": 5})
    path = f"/api/v1/query-leases/{lease['lease']}"
    server.http.put(f"{path}/parts", json={"number": 0, "rows": [["400"]]}).raise_for_status()
    report = {"outcome": "done", "columns": [{"name": "n rows", "type": "BIGINT"}], "rows": 1}
    server.http.post(f"{path}/report", json=report).raise_for_status()
    expect(page.get_by_role("table", name="result")).to_contain_text("400")
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("list", name="history")).to_contain_text("Spark")
    server.http.delete(f"/api/v1/optimizers/{optimizer}").raise_for_status()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_catalog_is_asked_and_each_engine_completes_its_own_functions(
    server: ServerProcess, open_page: OpenPage, width: int
) -> None:
    offer = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "facts": {"sql": 1}}
    optimizer = server.post("optimizers", offer)
    page = open_page(f"{server.url}/c/lake/sql", width=width)
    settled(page)
    run(page, "SHOW TABLES IN shop")
    expect(page.get_by_text("2 rows")).to_be_visible()
    assert violations(page) == []
    run(page, "SHOW CREATE TABLE shop.sales")
    expect(page.get_by_label("text", exact=True)).to_contain_text("USING iceberg")
    page.get_by_text("Spark", exact=True).click()
    run(page, "DESCRIBE EXTENDED shop.stock")
    expect(page.get_by_role("table", name="result")).to_contain_text("Primary key")
    write(page, "")
    page.keyboard.type("SELECT posexpl")
    expect(page.get_by_role("option", name="posexplode(expr)")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_text("Instant", exact=True).click()
    write(page, "")
    page.keyboard.type("SELECT list_tr")
    expect(page.get_by_role("option", name="list_transform")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    assert violations(page) == []
    assert server.http.delete(f"/api/v1/optimizers/{optimizer['id']}").is_success
