"""A pipeline in the console: its graph, a run from the button to what its validators found, and its versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from firn.protocol.pipelines import InputChanges, RunResult
from firn.protocol.validators import Severity, ValidatorResult
from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser
TRIPS = {"name": "raw.trip", "columns": [{"name": "driver", "type": "long"}, {"name": "fare", "type": "int"}]}
SQL = "SELECT driver, rank() OVER (ORDER BY fares) AS r FROM mart.fares"
FAILED = ValidatorResult(
    name="paid", severity=Severity.FAIL, passed=False, violations=2, examples=[{"driver": "7", "fares": "-3"}]
)


def define(name: str, query: str, source: str, **more: Any) -> dict[str, Any]:
    definition = {"name": name, "query": query, "path": "transformations/t.sql", "line": 1, "inputs": [source]}
    return {**definition, "fingerprint": "a" * 64, "incremental": True, "scope": ["driver"], "key": ["driver"], **more}


def put(server: ServerProcess, *tables: dict[str, Any], text: str) -> None:
    files = [{"path": "transformations/t.sql", "text": text}]
    body = {"catalog": "lake", "files": files, "tables": list(tables)}
    answer = server.http.put("/api/v1/pipelines/orders", json=body)
    assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-pipelines") / "data") as running:
        for table in (TRIPS, {**TRIPS, "name": "mart.nothing"}):
            running.post("catalogs/lake/tables", table)
        source = {"table": "raw.trip", "column": "fare"}
        fares = define(
            "mart.fares",
            "SELECT driver, sum(fare) AS fares FROM raw.trip GROUP BY driver",
            "raw.trip",
            lineage=[{"column": "fares", "sources": [source]}],
        )
        reason = {"text": "window function without PARTITION BY", "line": 2, "column": 16, "remedy": "Partition it"}
        rank = define(
            "mart.rank",
            "SELECT driver, rank() OVER (ORDER BY fares) AS r FROM mart.fares",
            "mart.fares",
            incremental=False,
            scope=[],
            reasons=[reason],
            trigger={"kind": "fresh", "fresh_within_seconds": 900},
        )
        put(running, fares, rank, text="-- first\n" + SQL)
        put(running, fares, {**rank, "refresh": "full"}, text="-- second\n" + SQL)
        yield running


def fail_run(server: ServerProcess) -> None:
    """Do what an optimizer does whose audit fails."""
    about = {"group": "default", "host": "nowhere", "pid": 1, "version": "0", "protocol": 6}
    optimizer = server.post("optimizers", about)["id"]
    lease = server.post("leases", {"optimizer_id": optimizer, "kinds": ["pipeline"], "wait_seconds": 5})["lease"]
    changes = InputChanges(table="raw.trip", commits=3, files=2, bytes=4096)
    result = RunResult(mode="nothing", inputs=[changes], dropped=5, validators=[FAILED]).model_dump(mode="json")
    report = {"outcome": "refused", "error": "audit failed, and nothing was committed: paid (2 rows)", "result": result}
    assert server.http.post(f"/api/v1/leases/{lease}/report", json=report).is_success


def test_a_pipeline_is_found_run_and_explained(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("Each run computes all rows: window function without PARTITION BY")).to_be_visible()
    expect(page.get_by_text("fresh within 15 min")).to_be_visible()
    marked = page.get_by_label("query in transformations/t.sql").locator("mark")
    expect(marked).to_have_text("rank() OVER (ORDER BY fares) AS r FROM mart.fares")
    page.get_by_role("button", name=re.compile("^mart.fares")).click()
    expect(page.get_by_text("raw.trip.fare")).to_be_visible()
    expect(marked).to_have_count(0)
    assert violations(page) == []
    page.get_by_role("button", name="Run mart.fares").click()
    expect(page.get_by_role("button", name="Run mart.fares")).to_have_attribute("aria-disabled", "true")
    fail_run(server)
    expect(page.get_by_role("alert")).to_contain_text("audit failed, and nothing was committed: paid (2 rows)")
    page.get_by_role("tab", name="Runs").click()
    expect(page.get_by_role("table", name="runs")).to_contain_text("failed")
    page.get_by_role("table", name="runs").get_by_role("link").first.click()
    run = page.get_by_role("dialog")
    expect(run).to_contain_text("paid: fail, 2 rows")
    expect(run).to_contain_text("driver=7, fares=-3")
    expect(run).to_contain_text("3 commits, 2 files, 4 KiB")
    expect(run).to_contain_text("rows dropped5")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Versions").click()
    expect(page.get_by_text("changed since version 1")).to_be_visible()
    expect(page.get_by_text("-- second")).to_be_visible()
    expect(page.get_by_text("-- first")).to_be_visible()  # as a removed line
    assert violations(page) == []


def test_a_full_run_and_a_forgotten_checkpoint_are_asked_for_twice(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines/orders?table=mart.rank")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Forget the checkpoint…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The next run computes all of them.")
    dialog.get_by_role("button", name="Forget the checkpoint").click()
    expect(dialog).to_contain_text("mart.rank")  # it is not built: the server says so, and nothing is lost
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Run in full…").click()
    page.get_by_role("dialog").get_by_role("button", name="Run in full").click()
    expect(page.get_by_role("button", name="Run mart.rank")).to_have_attribute("aria-disabled", "true")


def test_an_unknown_pipeline_says_so(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines/none")
    expect(page.get_by_role("alert")).to_contain_text("none")
