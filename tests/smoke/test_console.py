"""Every page of the console loads in a real browser: heading, no complaint in its console, and what axe finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from firn.embedded.metastore import EmbeddedMetastore
from tests.browser import END_OF_TRANSITIONS, OpenPage, settled, violations_in_light
from tests.hive_data import FULL_NAME, make_orders
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.hive]

ROUTES = Path(__file__).parents[2] / "web" / "src" / "routes.tsx"
KEYED = {
    "name": "web.visits",
    "columns": [{"name": "id", "type": "long"}, {"name": "page", "type": "string"}],
    "primary_key": ["id"],
}
PIPELINE = {
    "catalog": "lake",
    "files": [{"path": "transformations/daily.sql", "text": "CREATE MATERIALIZED VIEW daily AS SELECT …"}],
    "tables": [
        {
            "name": "web.pages",
            "query": "SELECT page, count(*) AS n FROM web.visits GROUP BY page",
            "path": "transformations/daily.sql",
            "line": 1,
            "inputs": ["web.visits"],
            "key": ["page"],
            "fingerprint": "0" * 64,
            "incremental": True,
            "scope": ["page"],
        }
    ],
}
OPEN = {
    "/": "/",
    "/c/:catalog": "/c/lake",
    "/c/:catalog/tables": "/c/lake/tables",
    "/c/:catalog/tables/:table": "/c/lake/tables/web.visits",
    "/c/:catalog/sql": "/c/lake/sql",
    "/c/:catalog/trends": "/c/lake/trends",
    "/c/:catalog/policies": "/c/lake/policies",
    "/c/:catalog/cdc": "/c/lake/cdc",
    "/c/:catalog/hive": "/c/lake/hive",
    "/c/:catalog/migration": "/c/lake/migration",
    "/c/:catalog/hive/upgrade": f"/c/lake/hive/upgrade?tables={FULL_NAME}",
    "/c/:catalog/hive/:table/upgrade": f"/c/lake/hive/{FULL_NAME}/upgrade",
    "/c/:catalog/import": "/c/lake/import",
    "/status": "/status",
    "/jobs": "/jobs",
    "/jobs/:id": "/jobs/{job}",
    "/streams": "/streams",
    "/pipelines": "/pipelines",
    "/pipelines/:pipeline": "/pipelines/web",
    "/optimizers": "/optimizers",
    "/notifications": "/notifications",
    "/settings": "/settings",
    "*": "/nowhere",
}
"""Routes of an open server, and an address of each."""
GUARDED = {
    "/access": "/access",
    "/access/people": "/access/people",
    "/access/tokens": "/access/tokens",
    "/access/roles": "/access/roles",
    "/access/roles/:role": "/access/roles/admin",
    "/access/audit": "/access/audit",
}
"""Those of a server with access control."""
TABLES_THAT_SCROLL = """() => [...document.querySelectorAll("main table")]
    .filter(table => table.parentElement.scrollWidth > table.parentElement.clientWidth + 1)
    .map(table => table.getAttribute("aria-label"))"""
TABS = [
    *("overview", "schema", "preview", "layout", "lineage", "trends", "changes"),
    *("writers", "snapshots", "jobs", "policy", "properties", "use"),
]


@pytest.fixture(scope="module")
def job(metastore: EmbeddedMetastore, server: ServerProcess) -> str:
    """A waiting job of a keyed table, beside Hive tables and a pipeline."""
    make_orders(metastore.uri, metastore.warehouse)
    server.post("catalogs/lake/hive/refresh")
    server.post("catalogs/lake/tables", KEYED)
    assert server.http.put("/api/v1/pipelines/web", json=PIPELINE).is_success
    return str(server.post("catalogs/lake/tables/web.visits/jobs", {"kind": "rewrite"})["id"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("guarded") / "data", FIRN_ACCESS__ENABLED="true") as running:
        yield running


def test_every_route_is_here() -> None:
    routes = set(re.findall(r"path: '([^']+)'", ROUTES.read_text(encoding="utf-8")))
    assert routes == OPEN.keys() | GUARDED.keys()


@pytest.mark.parametrize("route", OPEN)
def test_a_page_loads(server: ServerProcess, job: str, open_page: OpenPage, route: str) -> None:
    page = open_page(server.url + OPEN[route].format(job=job))
    settled(page)
    assert violations_in_light(page) == []


def test_every_tab_of_a_table_loads(server: ServerProcess, job: str, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/web.visits")
    for tab in TABS:
        page.goto(f"{server.url}/c/lake/tables/web.visits?tab={tab}")
        settled(page)
        assert violations_in_light(page) == [], tab


def test_every_page_of_access_control_loads(guarded: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(guarded.url)
    page.get_by_role("textbox", name="Token").fill(guarded.first_token or "")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("signed in as"))).to_be_visible()
    for address in GUARDED.values():
        page.goto(guarded.url + address)
        settled(page)
        assert violations_in_light(page) == [], address


def test_no_list_scrolls_sideways_in_a_narrow_window(server: ServerProcess, job: str, open_page: OpenPage) -> None:
    """Rows that do not fit are blocks there, and screen readers still hear a table."""
    page = open_page(server.url, width=390)
    for address in ("/c/lake/tables", "/c/lake/hive", "/jobs", "/settings"):
        page.goto(server.url + address)
        settled(page)
        page.evaluate(END_OF_TRANSITIONS)
        assert page.evaluate(TABLES_THAT_SCROLL) == [], address
        assert violations_in_light(page) == [], address
    expect(page.get_by_role("table", name="background tasks").get_by_role("row").first).to_be_attached()


def test_starred_tables_are_on_home_and_in_the_search(server: ServerProcess, job: str, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/web.visits")
    page.get_by_role("button", name="add to favourites").click()
    expect(page.get_by_role("button", name="remove from favourites")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{server.url}/c/lake")
    settled(page)
    expect(page.get_by_role("navigation", name="favourites").get_by_role("link", name="web.visits")).to_be_visible()
    assert violations_in_light(page) == []
    page.keyboard.press("Control+k")
    first = page.get_by_role("dialog", name="search").get_by_role("button").first
    expect(first).to_have_accessible_name("web.visits")
    page.goto(f"{server.url}/c/lake/tables/web.visits")
    page.get_by_role("button", name="remove from favourites").click()
    page.goto(f"{server.url}/c/lake")
    settled(page)
    expect(page.get_by_role("navigation", name="favourites")).to_have_count(0)
    expect(page.get_by_role("navigation", name="recently viewed")).to_contain_text("web.visits")


def test_the_settings_offer_dashboard_and_alerts(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/settings")
    for name, file in (("firn-grafana.json", "grafana/firn.json"), ("firn.rules.yml", "prometheus/firn.rules.yml")):
        link = page.get_by_role("link", name=name, exact=True)
        answer = server.http.get(str(link.get_attribute("href")))
        assert answer.content == (ROUTES.parents[2] / "deploy" / file).read_bytes()
