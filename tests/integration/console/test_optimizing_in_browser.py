"""The optimizing pages in a real browser: what needs somebody, why, and what happens when a button is pressed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog.rest import RestCatalog

from catalog.jobs.job import JobKind
from firn.protocol.leases import PROTOCOL
from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

COLUMNS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
GAINED = {"files_before": 8, "files_after": 1, "bytes_before": 4_000_000, "bytes_after": 3_000_000}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that plans nothing by itself, with one optimizer at work in the default group and none in `nightly`."""
    with server_process(tmp_path_factory.mktemp("console-optimizing") / "data", FIRN_LEASE__SECONDS="3600") as running:
        for name in ("shop.orders", "shop.prices", "shop.quiet", "web.raw"):
            running.post("catalogs/lake/tables", {"name": name, "columns": COLUMNS})
            for start in (0, 2):
                rows = pa.table({"id": [start, start + 1], "note": ["a", "b"]})
                RestCatalog("lake", uri=f"{running.url}/iceberg", warehouse="lake").load_table(name).append(rows)
        running.post("groups", {"name": "nightly", "description": "large tables"})
        set_policy(running, "firn.optimize.group", "nightly", namespace="web")
        running.post("catalogs/lake/tables/web.raw/jobs", {"kind": "rewrite"})
        worker = registered(running)
        done(running, leased(running, worker, "shop.prices"), "nothing", {"gained": GAINED, "files_rewritten": 8})
        done(running, leased(running, worker, "shop.quiet"), "refused", {}, error="the heap was too small")
        leased(running, worker, "shop.orders")
        yield running


def set_policy(server: ServerProcess, key: str, value: str, **scope: str) -> None:
    server.http.patch("/api/v1/catalogs/lake/policy", json={"set": {key: value}}, params=scope).raise_for_status()


def registered(server: ServerProcess, host: str = "worker-1") -> str:
    coming = {"host": host, "pid": 7, "version": "0", "protocol": PROTOCOL, "slots": 4}
    worker: str = server.post("optimizers", coming)["id"]
    return worker


def leased(server: ServerProcess, worker: str, table: str) -> dict[str, Any]:
    """A rewrite of the table, taken by this optimizer and begun."""
    server.post(f"catalogs/lake/tables/{table}/jobs", {"kind": "rewrite"})
    lease = server.post("leases", {"optimizer_id": worker, "kinds": list(JobKind), "wait_seconds": 5})
    progress = {"stage": "packing", "done": 3, "total": 12, "unit": "files"}
    beat = {"progress": progress, "log": ["reads 8 files"], "memory": {"heap_used": 500, "heap_max": 1000}}
    server.http.put(f"/api/v1/leases/{lease['lease']}", json=beat).raise_for_status()
    return lease


def done(server: ServerProcess, lease: dict[str, Any], outcome: str, result: Any, error: str | None = None) -> None:
    server.post(f"leases/{lease['lease']}/report", {"outcome": outcome, "result": result, "error": error})


def job_of(server: ServerProcess, table: str) -> dict[str, Any]:
    job: dict[str, Any] = server.get(f"catalogs/lake/tables/{table}/jobs")["items"][0]
    return job


def settled(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0)


PAGES = {
    "overview": "/status",
    "jobs": "/jobs",
    "optimizers": "/optimizers",
    "sorted": "/c/lake/tables?sort=health",
    "table": "/c/lake/tables/shop.orders",
}


@pytest.mark.parametrize("page_name", PAGES)
def test_axe_finds_nothing_wrong_in_light_and_dark(server: ServerProcess, open_page: OpenPage, page_name: str) -> None:
    page = open_page(f"{server.url}{PAGES[page_name]}")
    settled(page)
    page.wait_for_timeout(500)
    assert violations(page) == []
    page.set_viewport_size({"width": 1000, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000


def test_the_overview_says_that_nobody_works_in_a_group_and_leads_to_its_jobs(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/status")
    needs = page.get_by_label("what needs you")
    expect(needs).to_contain_text("Group nightly: 1 job and no optimizer")
    expect(needs).to_contain_text("firn optimizer --group nightly")
    expect(page.get_by_role("table", name="running jobs")).to_contain_text("3 of 12 files")
    page.get_by_role("table", name="queue").get_by_role("link", name="nightly").click()
    expect(page).to_have_url(re.compile("show=queue&group=nightly"))
    expect(page.get_by_text("no optimizer of group nightly is running")).to_be_visible()
    jobs = page.get_by_role("table", name="jobs")
    expect(jobs).to_contain_text("web.raw")
    expect(jobs).not_to_contain_text("shop.orders")


def test_the_last_hours_are_bars_and_jobs_are_found_by_their_table(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/status")
    hours = page.get_by_role("figure", name="jobs that ended, by hour").get_by_role("img")
    expect(hours).to_have_count(24)
    # Not the last bar: an hour may have ended since.
    both = page.get_by_role("img", name=re.compile("1 job succeeded, 1 failed"))
    expect(both).to_have_count(1)
    page = open_page(f"{server.url}/jobs")
    page.get_by_label("search by table").fill("PRICES")
    jobs = page.get_by_role("table", name="jobs")
    expect(jobs).not_to_contain_text("shop.orders")
    expect(jobs).to_contain_text("shop.prices")
    page.get_by_label("search by table").fill("nothing like it")
    expect(page.get_by_text("No matching jobs")).to_be_visible()


def test_a_job_shows_what_was_predicted_and_gained_and_why_a_button_rests(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/jobs/{job_of(server, 'shop.prices')['id']}")
    compared = page.get_by_role("table", name="before, predicted, actual")
    expect(compared.get_by_role("row").filter(has_text="data files")).to_contain_text("8")
    expect(page.get_by_role("log")).to_contain_text("reads 8 files")
    expect(page.get_by_role("list", name="stages")).to_contain_text("succeeded, done")
    assert violations(page) == []
    page.get_by_role("button", name="Cancel").focus()
    expect(page.get_by_role("tooltip")).to_contain_text("It has ended: succeeded.")


def test_a_failed_job_is_tried_again_and_the_new_one_canceled(server: ServerProcess, open_page: OpenPage) -> None:
    failed = job_of(server, "shop.quiet")
    page = open_page(f"{server.url}/jobs/{failed['id']}")
    expect(page.get_by_role("alert")).to_contain_text("the heap was too small")
    page.get_by_role("button", name="Retry").press("Enter")
    expect(page).not_to_have_url(re.compile(failed["id"]))
    expect(page.get_by_role("list", name="stages")).to_contain_text("waiting, now")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("list", name="stages")).to_contain_text("canceled, ended here")


def test_to_cancel_a_job_that_is_worked_on_is_asked_once(server: ServerProcess, open_page: OpenPage) -> None:
    server.post("catalogs/lake/tables", {"name": "shop.spare", "columns": COLUMNS})
    leased(server, registered(server, "worker-9"), "shop.spare")
    page = open_page(f"{server.url}/jobs/{job_of(server, 'shop.spare')['id']}")
    page.get_by_role("button", name="Cancel").press("Enter")
    asking = page.get_by_role("dialog", name="Cancel the rewrite of shop.spare")
    expect(asking).to_contain_text("An optimizer is running the job")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(asking).to_have_count(0)
    assert job_of(server, "shop.spare")["status"] == "running"
    page.get_by_role("button", name="Cancel").click()
    asking.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("list", name="stages")).to_contain_text("canceled, ended here")


def test_a_table_is_locked_with_a_reason_and_unlocked_by_keyboard(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.quiet")
    page.get_by_role("button", name="Pause optimization").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox", name="Reason")).to_be_focused()
    page.keyboard.type("a backfill")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_text("Jobs are paused for this table")).to_be_visible()
    rewrite = page.get_by_role("button", name="Rewrite", exact=True)
    expect(rewrite).to_have_attribute("aria-disabled", "true")
    rewrite.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("a backfill")
    page.get_by_role("button", name="resume: a backfill").press("Enter")
    expect(page.get_by_text("Jobs are paused for this table")).to_have_count(0)
    assert not server.get("catalogs/lake/tables/shop.quiet/blockers")


def test_a_dry_run_says_what_it_would_touch_before_a_job_is_asked_for(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.prices")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("It would")).to_be_visible()
    expect(dialog.get_by_role("table", name="affected items")).to_be_visible()
    assert violations(page) == []
    before = len(server.get("catalogs/lake/tables/shop.prices/jobs")["items"])
    dialog.get_by_role("button", name="Cancel").click()
    assert len(server.get("catalogs/lake/tables/shop.prices/jobs")["items"]) == before
    page.get_by_role("button", name="More jobs").press("Enter")
    expect(page.get_by_role("menuitem", name=re.compile("Remove orphans"))).to_be_visible()


def test_health_is_shown_in_parts_with_the_figures_behind_them(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.prices")
    health = server.get("catalogs/lake/tables/shop.prices/health")
    for part in health["parts"]:
        expect(page.get_by_role("meter", name=re.compile(part["part"].replace("-", " ")))).to_be_visible()
    assert "small-files" in [part["part"] for part in health["parts"]]


def test_the_timeline_goes_from_a_commit_to_a_job_by_arrow_keys(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables/shop.orders")
    line = page.get_by_role("group", name="commits and jobs in time")
    line.get_by_role("button", name=re.compile("^append")).last.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(line.get_by_role("link", name=re.compile("rewrite job, running"))).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{job_of(server, 'shop.orders')['id']}"))


def test_an_optimizer_is_drained_with_a_reason_and_let_work_again(server: ServerProcess, open_page: OpenPage) -> None:
    registered(server, host="worker-2")
    page = open_page(f"{server.url}/optimizers")
    row = page.get_by_role("table", name="optimizers").get_by_role("row").filter(has_text="worker-2")
    row.get_by_role("button", name="drain worker-2:7").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Why").fill("a new kernel")
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(row).to_contain_text("takes no more jobs: a new kernel")
    row.get_by_role("button", name="resume worker-2:7").click()
    expect(row).to_contain_text("idle")


def test_a_group_is_made_changed_and_dropped(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/optimizers")
    page.get_by_role("button", name="Create group").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("small")
    assert violations(page) == []
    dialog.get_by_role("button", name="Create").click()
    row = page.get_by_role("table", name="groups").get_by_role("row").filter(has_text="small")
    expect(row).to_be_visible()
    row.get_by_role("button", name="actions on group small").click()
    page.get_by_role("menuitem", name="Drop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    expect(row).to_have_count(0)
