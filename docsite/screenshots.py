"""`python -m docsite.screenshots URL`: take the pictures of the console's pages that the documentation shows.

URL is the server of a `make demo` that stays up, so that every picture shows the same real tables. Pictures of access
control come from a server of their own, because the demo's is open.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize

import firn
from tests.browser import END_OF_TRANSITIONS, SLOWEST_MS, running_chromium, settled
from tests.spark_fixtures import server_process

PICTURES = Path(__file__).parents[1] / "docs" / "images" / "pages"
VIEWPORT = ViewportSize(width=1440, height=900)
COLOURS = 128
"""Of a picture: a page of text needs no more, and its file is a third as large."""
TABLE = "/c/lake/tables/nyc.flights"
STATEMENT = (
    "SELECT carrier, count(*) AS flights, avg(dep_delay) AS delay FROM nyc.flights GROUP BY carrier ORDER BY delay DESC"
)


def _search(page: Page) -> None:
    page.keyboard.press("Control+K")
    page.get_by_role("dialog").get_by_role("textbox").fill("flights")
    page.get_by_role("dialog").get_by_text("nyc.flights").first.wait_for()


def _run_statement(page: Page) -> None:
    page.locator(".cm-content").fill(STATEMENT)
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.get_by_role("cell", name="carrier").or_(page.get_by_role("columnheader", name="carrier")).first.wait_for()


def _open_first_job(page: Page) -> None:
    page.get_by_role("table").get_by_role("link").first.click()
    page.wait_for_url("**/jobs/*")
    settled(page)


def _choose_connection(page: Page) -> None:
    page.get_by_placeholder("Choose a connection to Kafka").click()
    page.get_by_role("option", name="main").click()
    page.get_by_text("departures").first.wait_for()


def _check_all(page: Page) -> None:
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name=re.compile(r"Upgrade \d+ tables")).click()
    page.get_by_role("button", name=re.compile(r"Upgrade [1-9]")).and_(page.locator(":enabled")).wait_for()
    settled(page)


@dataclass(frozen=True)
class Picture:
    """An address of the console, and what is done there before the picture is taken."""

    address: str
    act: Callable[[Page], None] | None = None
    shows: str = ""
    """The address after it, where that is another page."""


OPEN: Mapping[str, Picture] = {
    "home": Picture("/c/lake"),
    "search": Picture("/c/lake", _search),
    "tables": Picture("/c/lake/tables"),
    "table": Picture(TABLE),
    **{
        f"table-{tab}": Picture(f"{TABLE}?tab={tab}")
        for tab in ("schema", "preview", "layout", "trends", "snapshots", "policy", "use")
    },
    "table-lineage": Picture("/c/lake/tables/nyc.delays?tab=lineage"),
    "table-changes": Picture(f"{TABLE}?tab=changes&since=1&until=3"),
    "table-writers": Picture("/c/lake/tables/nyc.departures?tab=writers"),
    "sql": Picture("/c/lake/sql", _run_statement),
    "hive": Picture("/c/lake/hive"),
    "upgrade": Picture("/c/lake/hive/nyc.planes/upgrade?step=2"),
    "upgrade-many": Picture("/c/lake/hive", _check_all, shows="/c/lake/hive/upgrade"),
    "migration": Picture("/c/lake/migration"),
    "import": Picture("/c/lake/import"),
    "cdc": Picture("/c/lake/cdc", _choose_connection),
    "policies": Picture("/c/lake/policies"),
    "trends": Picture("/c/lake/trends"),
    "jobs": Picture("/jobs"),
    "job": Picture("/jobs?kind=merge", _open_first_job, shows="/jobs/1"),
    "streams": Picture("/streams"),
    "pipelines": Picture("/pipelines"),
    "pipeline": Picture("/pipelines/nyc"),
    "optimizers": Picture("/optimizers"),
    "notifications": Picture("/notifications"),
    "status": Picture("/status"),
    "settings": Picture("/settings"),
}
GUARDED: Mapping[str, Picture] = {
    "people": Picture("/access/people"),
    "tokens": Picture("/access/tokens"),
    "roles": Picture("/access/roles"),
    "role": Picture("/access/roles/analysts"),
    "audit": Picture("/access/audit", lambda page: page.get_by_text("analysts").first.wait_for()),
}


def add_examples(url: str) -> None:
    """Give the demo a connection and a rule, which its own steps do without: their pages would be empty."""
    with firn.connect(url) as client:
        if "main" not in {connection.name for connection in client.connections.list()}:
            client.connections.create("main", client.tables["nyc.departures"].log.show().brokers)
        if "ops" not in {rule.name for rule in client.notifications.rules()}:
            client.notifications.create_rule(
                "ops", ["job_failed", "stream_stopped"], url="https://hooks.example.com/firn"
            )


def add_people(url: str, token: str) -> None:
    """Give a new server a role and someone who has it, for pictures of access control."""
    with firn.connect(url, token=token) as client:
        client.access.create_role("analysts", "read what sales publishes")
        client.access.create_user("ada")
        client.access.assign("analysts", "ada")


def take_pictures(url: str, pictures: Mapping[str, Picture], browser: Browser, out: Path, token: str = "") -> None:
    """Write a PNG for each picture into `out`. `token` signs in first."""
    context = browser.new_context(color_scheme="light", reduced_motion="reduce", viewport=VIEWPORT)
    context.set_default_timeout(SLOWEST_MS)
    page = context.new_page()
    if token:
        page.goto(url)
        page.get_by_role("textbox", name="Token").fill(token)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("navigation").first.wait_for()
    for name, picture in pictures.items():
        page.goto(url + picture.address)
        settled(page)
        if picture.act:
            picture.act(page)
        page.evaluate(END_OF_TRANSITIONS)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
        shot.save(out / f"{name}.png", optimize=True)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docsite.screenshots", description=__doc__)
    parser.add_argument("url", help="of the demo's server, as http://127.0.0.1:8630")
    parser.add_argument("--only", nargs="+", default=[*OPEN, *GUARDED], help="names of pictures (default: all)")
    parser.add_argument("--out", type=Path, default=PICTURES, help="directory (default: docs/images/pages)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    opened, guarded = ({name: those[name] for name in those if name in options.only} for those in (OPEN, GUARDED))
    add_examples(options.url)
    with running_chromium() as browser:
        take_pictures(options.url.rstrip("/"), opened, browser, options.out)
        if guarded:
            with (
                tempfile.TemporaryDirectory() as scratch,
                server_process(Path(scratch) / "data", FIRN_ACCESS__ENABLED="true") as server,
            ):
                add_people(server.url, server.first_token or "")
                take_pictures(server.url, guarded, browser, options.out, server.first_token or "")


if __name__ == "__main__":
    main()
