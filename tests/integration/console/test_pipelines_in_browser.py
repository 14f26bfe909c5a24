"""A pipeline in the console: its graph, a run from the button to what its validators found, and its versions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from catalog.commits.positions import NO_POSITION
from catalog.names import TableName
from firn.protocol.leases import PROTOCOL
from firn.protocol.pipelines import CHECKPOINT_KEY, InputChanges, RunResult
from firn.protocol.validators import Severity, ValidatorResult
from tests.browser import OpenPage, violations
from tests.server.lake import appended
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser
TRIPS = {"name": "raw.trip", "columns": [{"name": "driver", "type": "long"}, {"name": "fare", "type": "int"}]}
SQL = "SELECT driver, rank() OVER (ORDER BY fares) AS r FROM mart.fares"
FAILED = ValidatorResult(
    name="paid", severity=Severity.FAIL, passed=False, violations=2, examples=[{"driver": "7", "fares": "-3"}]
)

SAMPLE = {
    "rows": [
        {"before": None, "after": {"driver": "9", "fare": "12"}},
        {"before": {"driver": "1", "fare": "8"}, "after": {"driver": "1", "fare": None}},
        {"before": {"driver": "4", "fare": "7"}, "after": None},
    ]
}


def define(name: str, query: str, source: str, **more: Any) -> dict[str, Any]:
    definition = {"name": name, "query": query, "path": "transformations/t.sql", "line": 1, "inputs": [source]}
    return {**definition, "fingerprint": "a" * 64, "incremental": True, "scope": ["driver"], "key": ["driver"], **more}


def put(server: ServerProcess, *tables: dict[str, Any], text: str, name: str = "orders") -> None:
    files = [{"path": "transformations/t.sql", "text": text}]
    body = {"catalog": "lake", "files": files, "tables": list(tables)}
    answer = server.http.put(f"/api/v1/pipelines/{name}", json=body)
    assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("console-pipelines")
    lineage = {"FIRN_LINEAGE__FILE": str(directory / "lineage.jsonl"), "FIRN_LINEAGE__SECONDS": "0.5"}
    with server_process(directory / "data", **lineage) as running:
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
        running.post("catalogs/lake/tables", {**TRIPS, "name": "mart.amounts"})
        amounts = define("mart.amounts", "SELECT driver, fare FROM raw.trip", "raw.trip", key=[], audit="hold")
        put(running, amounts, text="SELECT driver, fare FROM raw.trip", name="held")
        yield running


@dataclass
class Optimizer:
    """An optimizer that runs the plain table `mart.amounts`, step by step, over HTTP."""

    server: ServerProcess
    lease: str

    @classmethod
    def take(cls, server: ServerProcess, run: str | None = None) -> Optimizer:
        """Take one run, or the next one; other tests may have left older ones in the queue."""
        about = {"group": "default", "host": "nowhere", "pid": 1, "version": "0", "protocol": PROTOCOL}
        optimizer = server.post("optimizers", about)["id"]
        wanted = {"optimizer_id": optimizer, "kinds": ["pipeline"], "wait_seconds": 5}
        answer = server.post("leases", wanted)
        while run not in (None, answer["job_id"]):
            answer = server.post("leases", wanted)
        return cls(server, answer["lease"])

    def pin(self) -> dict[str, Any]:
        target = {"table": "mart.amounts", "fingerprint": "a" * 64}
        (pinned,) = self.server.post(f"leases/{self.lease}/pins", {"targets": [target]})["targets"]
        return dict(pinned)

    def publish(self, rows: int = 0) -> None:
        """Commit a step without rows, or a snapshot of some, which waits for approval."""
        pinned = self.pin()
        writer, until, start = pinned["writer"], pinned["until"]["id"], pinned["writer"]["position"] or NO_POSITION
        move = {"table": "mart.amounts", "epoch": writer["epoch"], "start": start, "end": until}
        body: dict[str, Any] = {"moves": [move]}
        if rows:
            progress = {"firn.writer-id": writer["name"], "firn.writer-epoch": str(writer["epoch"])}
            progress |= {"firn.position-from": start, "firn.position": until, CHECKPOINT_KEY: "{}"}
            metadata = self.server.http.get("/iceberg/v1/lake/namespaces/mart/tables/amounts").json()["metadata"]
            change = appended(TableName(("mart",), "amounts"), metadata, rows=rows, summary=progress)
            parts = {"requirements": [*change.requirements], "updates": [*change.updates]}
            body = {"changes": [{"table": "mart.amounts", **parts}], "samples": {"mart.amounts": SAMPLE}}
        self.server.post(f"leases/{self.lease}/publish", body)

    def report(self, result: RunResult, **more: Any) -> None:
        report = {"outcome": "nothing", "result": result.model_dump(mode="json"), **more}
        assert self.server.http.post(f"/api/v1/leases/{self.lease}/report", json=report).is_success


def fail_run(server: ServerProcess) -> None:
    """Do what an optimizer does whose audit fails."""
    changes = InputChanges(table="raw.trip", commits=3, files=2, bytes=4096)
    result = RunResult(mode="nothing", inputs=[changes], dropped=5, validators=[FAILED])
    error = "audit failed, and nothing was committed: paid (2 rows)"
    Optimizer.take(server).report(result, outcome="refused", error=error)


def test_a_pipeline_is_found_run_and_explained(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("Each run computes all rows: window function without PARTITION BY")).to_be_visible()
    expect(page.get_by_text("fresh within 15 min")).to_be_visible()
    marked = page.get_by_label("query in transformations/t.sql").locator("mark")
    expect(marked).to_have_text("rank() OVER (ORDER BY fares)")
    page.get_by_role("button", name=re.compile("^mart.fares")).click()
    expect(page.get_by_text("raw.trip.fare")).to_be_visible()
    expect(page.get_by_text("the table has no checkpoint yet")).to_be_visible()
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
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Run in full…").click()
    page.get_by_role("dialog").get_by_role("button", name="Run in full").click()
    expect(page.get_by_role("button", name="Run mart.rank")).to_have_attribute("aria-disabled", "true")


def test_an_answer_that_comes_late_closes_no_dialog_opened_since(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines/orders?table=mart.rank")
    waiting: list[Route] = []
    page.route("**/reset", lambda route: waiting.append(route))  # noqa: PLW0108  # Playwright sets attributes of it
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Forget the checkpoint…").click()
    page.get_by_role("button", name="Forget the checkpoint").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Forget the checkpoint…").click()
    with page.expect_response("**/pipelines/orders"):  # the page asks again after an answer
        waiting[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("dialog")).to_contain_text("Forget the checkpoint of mart.rank")


def run_held(server: ServerProcess, rows: int, **result: Any) -> None:
    """A run of the table whose runs wait for approval, from the request to its report."""
    run = server.post("pipelines/held/runs", {"table": "mart.amounts"})
    optimizer = Optimizer.take(server, run["job_id"])
    optimizer.publish(rows)
    optimizer.report(RunResult(mode="incremental", held=rows > 0, **result))


def refuse_jobs_beside(form: Locator) -> None:
    """Ask for jobs beside the runs, which a table without a key cannot have; its chunks are parts of runs."""
    form.get_by_label("Jobs beside the runs").fill("2")
    expect(form.get_by_label("the same in a terminal", exact=True)).to_contain_text("--chunks 4 --beside 2")
    form.get_by_role("button", name="Request the backfill").click()
    expect(form.get_by_role("alert")).to_contain_text("it has no key")
    form.get_by_label("Jobs beside the runs").fill("")


def test_a_backfill_is_requested_followed_paused_and_canceled(server: ServerProcess, open_page: OpenPage) -> None:
    run_held(server, rows=0)
    page = open_page(f"{server.url}/pipelines/held")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Compute some rows again…").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Rows").fill("fare > 3")
    form.get_by_role("button", name="Show the chunks").click()
    expect(form.get_by_role("alert")).to_contain_text("fare")  # which is no column of the scope
    form.get_by_label("Rows").fill("driver BETWEEN 1 AND 4")
    expect(form.get_by_role("alert")).to_have_count(0)
    form.get_by_label("Number of chunks").fill("4")
    form.get_by_role("button", name="Show the chunks").click()
    chunks = form.get_by_role("table", name="chunks of the backfill").get_by_role("row")
    expect(chunks).to_have_count(5)
    expect(chunks.nth(1)).to_contain_text("`driver` < 2")
    command = (
        f"firn pipeline backfill held mart.amounts --where 'driver BETWEEN 1 AND 4' --chunks 4 --server {server.url}"
    )
    expect(form.get_by_label("the same in a terminal", exact=True)).to_have_text(command)
    assert violations(page) == []
    assert server.get("pipelines/held/tables/mart.amounts/backfills")["items"] == []
    refuse_jobs_beside(form)
    form.get_by_role("button", name="Request the backfill").click()
    expect(form).to_have_count(0)
    run_held(server, rows=0, chunks=1)
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "25")
    expect(page.get_by_text(re.compile("1 of 4 chunks · .* a chunk · about .* left, until about"))).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Cancel…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Runs no longer compute the 3 chunks that are left")
    dialog.get_by_role("button", name="Cancel the backfill").click()
    expect(page.get_by_text("canceled")).to_be_visible()
    assert violations(page) == []


def test_a_run_that_waits_is_shown_discarded_and_published(server: ServerProcess, open_page: OpenPage) -> None:
    warned = FAILED.model_copy(update={"severity": Severity.WARN})
    run_held(server, rows=7, written=5, deleted=2, dropped=3, quarantine="mart.amounts_quarantine", validators=[warned])
    page = open_page(f"{server.url}/pipelines/held")
    expect(page.get_by_text("Readers see nothing of it")).to_be_visible()
    expect(page.get_by_text("rows to delete2")).to_be_visible()
    expect(page.get_by_text("paid: warn, 2 rows")).to_be_visible()
    rows = page.get_by_role("table", name="rows that would change in mart.amounts").get_by_role("row")
    expect(rows).to_have_text(["changedriverfare", "new912", "changed18 null", "deleted47"])
    expect(page.get_by_role("button", name="Run mart.amounts")).to_have_attribute("aria-disabled", "true")
    assert violations(page) == []
    page.get_by_role("button", name="Discard…").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("Readers see nothing of it")).to_have_count(0)
    page.get_by_role("tab", name="Runs").click()
    page.get_by_role("table", name="runs").get_by_role("link").first.click()
    run = page.get_by_role("dialog")
    expect(run).to_contain_text("rows dropped3")
    expect(run.get_by_role("link", name="mart.amounts_quarantine")).to_be_visible()
    page.keyboard.press("Escape")
    expect(run).to_have_count(0)
    page.get_by_role("tab", name="Table").click()
    run_held(server, rows=7, written=5, deleted=2)
    page.get_by_role("button", name="Publish…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("One transaction commits the run: 5 rows to write, 2 rows to delete.")
    dialog.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Readers see nothing of it")).to_have_count(0)
    table = server.http.get("/iceberg/v1/lake/namespaces/mart/tables/amounts").json()["metadata"]
    assert len(table["snapshots"]) == 1


def test_runs_are_told_to_the_file_of_lineage(server: ServerProcess, open_page: OpenPage) -> None:
    run_held(server, rows=0, written=3)
    runs = server.get("pipelines/held/runs?limit=1")["items"]
    page = open_page(f"{server.url}/settings")
    expect(page.get_by_role("table", name="background tasks")).to_contain_text("OpenLineage events")
    file = server.data_dir.parent / "lineage.jsonl"
    types = list[str]()
    for _ in range(60):
        events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        types = [event["eventType"] for event in events if event["run"]["runId"] == runs[0]["job_id"]]
        if "COMPLETE" in types:
            break
        time.sleep(0.5)
    assert types == ["START", "COMPLETE"]
    assert "firn_lineage_events_total" in server.http.get("/metrics").text


def test_an_unknown_pipeline_says_so(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/pipelines/none")
    expect(page.get_by_role("alert")).to_contain_text("none")
