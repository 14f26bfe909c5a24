"""`firn pipeline put`, `run` and what manages pipelines, against a stand-in of the server's routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

import firn
from firn.cli import context
from firn.client import TableHandle
from firn.protocol.pipelines import (
    RunResult,
)
from firn.protocol.validators import Severity, ValidatorResult
from tests.command_line import Command
from tests.firn.cli.pipeline_server import AT, COLUMNS, LATER, RESULT, FakeServer, describe_run, show_table

COMPUTED = (
    "2,140 affected values: 2,087 rows written, 31 left out (unchanged), 22 deleted, 4 dropped by validators into "
    "mart.driver_daily_quarantine"
)
COST = {"predicted_seconds": 18.2, "full_seconds": 120.0}


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    server = FakeServer()
    transport = httpx.MockTransport(server)

    def connect(*_: Any, **options: Any) -> firn.Client:
        return firn.connect("http://127.0.0.1:9", transport=transport, catalog=options["catalog"])

    with patch.object(context, "connect", connect), patch("firn.jobs.POLL_SECONDS", 0.0):
        yield server


run = Command("http://127.0.0.1:9")


def test_a_run_is_followed_and_told(fake: FakeServer) -> None:
    waiting, working = describe_run("pending"), describe_run("running", progress={"stage": "computing"})
    fake.runs = [waiting, waiting, working, describe_run("succeeded", ended_at=LATER, result=RESULT, **COST)]
    output = run("pipeline", "run", "orders", "driver_daily")
    assert (output.code, fake.sent[0][2]) == (0, {"table": "mart.driver_daily", "full": False})
    assert output.out.splitlines() == [
        "run     7",
        "table   mart.driver_daily",
        "status  succeeded",
        "mode              incremental",
        "input raw.trip    186 commits, 31 files, 44.0 MiB",
        "input dim.driver  changed",
        f"computed          {COMPUTED}",
        "left              250 commits: the next run continues",
        "published         snapshot 77",
        "checkpoint        c2",
        "took              17 s; at most 18 s predicted; the last full run took 2 min",
    ]
    assert output.err.splitlines() == [
        "the job waits, because no optimizer is registered: start one with `firn optimizer`",
        "run mart.driver_daily: waiting for an optimizer",
        "run mart.driver_daily: computing",
        "run mart.driver_daily: succeeded",
    ]


@pytest.mark.parametrize(
    ("facts", "definition", "noted"),
    [
        ({}, {"code": {"function": "top"}}, True),
        ({}, {"validators": [{"name": "checked", "kind": "python"}]}, True),
        ({"code": True}, {"code": {"function": "top"}}, False),
        ({}, {"validators": [{"name": "paid", "kind": "sql"}]}, False),
    ],
)
def test_a_run_that_waits_for_an_optimizer_that_allows_code_says_so(
    fake: FakeServer, facts: dict[str, Any], definition: dict[str, Any], *, noted: bool
) -> None:
    fake.optimizers, fake.definition = [{"id": "o", "facts": facts}], definition
    fake.runs = [describe_run("pending", leased_at=None)]
    output = run("pipeline", "run", "orders", "driver_daily", "--no-wait")
    assert ("start one with `firn optimizer --allow-code`" in output.err) == noted


def test_a_run_that_has_added_changes_says_so(fake: FakeServer) -> None:
    fake.runs = [describe_run("succeeded", ended_at=LATER, result=RESULT | {"recomputed": 12})]
    output = run("pipeline", "run", "orders", "driver_daily")
    assert "2,140 affected values (changes added to counts and sums, 12 recomputed): 2,087 rows written" in output.out


def test_a_run_without_news_says_so(fake: FakeServer) -> None:
    fake.runs = [describe_run("succeeded", ended_at=LATER, result={"mode": "nothing", "checkpoint": "c1"})]
    output = run("pipeline", "run", "orders", "mart.driver_daily", "--full")
    assert fake.sent[0][2]["full"] is True
    assert "mode        nothing" in output.out
    assert "published   nothing differs" in output.out
    assert "computed" not in output.out


def test_validators_that_have_not_passed_are_listed(fake: FakeServer) -> None:
    paid = ValidatorResult(name="paid", severity=Severity.DROP, passed=False, violations=1)
    rows = ValidatorResult(name="rows", severity=Severity.WARN, passed=False, detail="3 rows, at least 10 expected")
    key = ValidatorResult(name="key", severity=Severity.FAIL, passed=True)
    result = RESULT | {"validators": [entry.model_dump(mode="json") for entry in (paid, rows, key)]}
    fake.runs = [describe_run("succeeded", ended_at=LATER, result=result)]
    lines = run("pipeline", "run", "orders", "driver_daily").out.splitlines()
    listed = [" ".join(line.split()) for line in lines if line.startswith(("audited", "drop", "warn", "fail"))]
    assert listed == [
        "audited 1 of 3 validators passed",
        "drop paid 1 violation",
        "warn rows 3 rows, at least 10 expected",
    ]


def test_a_failed_run_ends_the_command_with_1(fake: FakeServer) -> None:
    fake.runs = [describe_run("failed", ended_at=LATER, error="the key is not unique: 7, 2026-11-01")]
    output = run("pipeline", "run", "orders", "driver_daily", "--json")
    assert (output.code, output.json["error"]) == (1, "the key is not unique: 7, 2026-11-01")
    assert "the key is not unique" in run("pipeline", "run", "orders", "driver_daily").out


def test_no_wait_returns_at_once(fake: FakeServer) -> None:
    fake.runs = [describe_run("pending", leased_at=None)]
    output = run("pipeline", "run", "orders", "driver_daily", "--no-wait", "--json")
    assert (output.code, output.json["status"]) == (0, "pending")
    late = run("pipeline", "run", "orders", "driver_daily", "--timeout", "0")
    assert (late.code, "it continues" in late.err) == (3, True)


def test_a_refused_run_says_why(fake: FakeServer) -> None:
    problem = {"message": "run 7 of mart.driver_daily is active", "hint": "wait for it"}
    fake.refusal = httpx.Response(409, json={"error": problem})
    output = run("pipeline", "run", "orders", "mart.driver_daily")
    assert (output.code, output.err) == (1, "firn: run 7 of mart.driver_daily is active\n      wait for it\n")


def test_a_table_that_the_pipeline_lacks_is_named(fake: FakeServer) -> None:
    output = run("pipeline", "run", "orders", "rider_daily")
    assert (output.code, fake.sent) == (1, [])
    assert output.err == ("firn: orders has no table rider_daily\n      it has mart.driver_daily, mart.city_rank\n")
    assert "has no table mart.x" in run("pipeline", "show", "orders", "mart.x").err


def test_pipelines_tables_runs_and_versions_are_shown(fake: FakeServer) -> None:
    fake.runs = [describe_run("succeeded", ended_at=LATER, result=RESULT)]
    assert "1 behind, 1 new" in run("pipeline", "list").out
    shown = run("pipeline", "show", "orders").out
    assert "mart.driver_daily behind incremental 1" in " ".join(shown.split())
    assert "mart.city_rank new full" in " ".join(shown.split())
    table = run("pipeline", "show", "orders", "driver_daily").out
    assert "checkpoint: raw.trip at snapshot 9" in table
    assert "SELECT 1" in table
    assert "2,087" in run("pipeline", "runs", "orders", "driver_daily").out
    assert "ann" in run("pipeline", "versions", "orders").out
    assert "-- transformations/a.sql\nCREATE MATERIALIZED VIEW a" in run("pipeline", "versions", "orders", "1").out
    for words in (["list"], ["show", "orders"], ["runs", "orders"], ["versions", "orders"]):
        assert run("pipeline", *words, "--json").json


def test_reset_and_drop_say_what_follows(fake: FakeServer) -> None:
    output = run("pipeline", "reset", "orders", "driver_daily")
    assert output.out == "the next run of driver_daily computes all rows\n"
    assert run("pipeline", "drop", "orders").out == "pipeline orders is dropped; its tables stay\n"
    paths = [(method, path) for method, path, _ in fake.sent]
    assert paths == [("POST", "/pipelines/orders/tables/mart.driver_daily/reset"), ("DELETE", "/pipelines/orders")]


def test_a_held_run_says_how_to_publish_it(fake: FakeServer) -> None:
    held = RESULT | {"held": True, "snapshot_id": None, "checkpoint": None}
    fake.runs = [describe_run("succeeded", ended_at=LATER, result=held)]
    lines = run("pipeline", "run", "orders", "driver_daily").out.splitlines()
    assert "published         waits: firn pipeline publish orders mart.driver_daily" in lines


def test_the_tables_of_a_set_are_listed(fake: FakeServer) -> None:
    other = RunResult(mode="incremental", written=3, deleted=1, snapshot_id="78").model_dump()
    same = RunResult(mode="nothing").model_dump()
    together = RESULT | {"together": {"mart.city_daily": other, "mart.total": same}}
    fake.runs = [describe_run("succeeded", ended_at=LATER, result=together)]
    listed = [" ".join(line.split()) for line in run("pipeline", "run", "orders", "driver_daily").out.splitlines()]
    assert "with mart.city_daily 3 rows written, 1 deleted, snapshot 78" in listed
    assert "with mart.total 0 rows written, 0 deleted, nothing differs" in listed


def test_rows_of_a_held_run_are_shown_before_and_after(fake: FakeServer) -> None:
    shown = run("pipeline", "show", "orders", "driver_daily", "--held").out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert {"rows to write 2", "change driver city", "new 9 null", "changed 1 7 → 9", "deleted 4 7"} <= set(lines)
    assert len(run("pipeline", "show", "orders", "driver_daily", "--held", "--json").json["rows"]) == 3
    refused = run("pipeline", "show", "orders", "--held")
    assert (refused.code, "firn pipeline show orders TABLE --held" in refused.err) == (2, True)


def test_held_runs_are_published_and_discarded(fake: FakeServer) -> None:
    output = run("pipeline", "publish", "orders", "driver_daily")
    assert output.out == "published: mart.driver_daily, mart.city_daily\n"
    assert run("pipeline", "discard", "orders", "mart.city_daily", "--json").json["tables"][1] == "mart.city_daily"
    paths = [path for _, path, _ in fake.sent]
    base = "/pipelines/orders/tables"
    assert paths == [f"{base}/mart.driver_daily/publish", f"{base}/mart.city_daily/discard"]
    output = run("pipeline", "publish", "orders")
    assert (output.out, len(fake.sent)) == ("no run of orders waits for approval\n", 2)


def test_put_plans_with_the_columns_of_the_server(
    fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableHandle, "show", show_table)
    folder = tmp_path / "orders"
    run("pipeline", "init", str(folder))
    output = run("pipeline", "put", str(folder), "--dry-run")
    assert output.out.splitlines()[0] == "orders would be at version 1"
    assert "mart.city_rank new the first run computes all rows" in " ".join(output.out.split())
    body = fake.sent[0][2]
    assert (body["dry_run"], body["rebuild"], body["catalog"]) == (True, False, "lake")
    assert run("pipeline", "put", str(folder), "--rebuild", "--json").json["version"] == 1
    assert fake.sent[1][2]["rebuild"] is True
    monkeypatch.delitem(COLUMNS, "dim.driver")
    output = run("pipeline", "put", str(folder))
    assert (output.code, len(fake.sent)) == (1, 2)
    assert output.err.startswith("firn: catalog lake has no table dim.driver\n      create it first")


def test_the_graph_says_how_far_tables_are_behind(fake: FakeServer) -> None:
    shown = run("pipeline", "graph", "orders")
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[2][:3] == ["mart.driver_daily", "behind", "raw.trip"]
    assert lines[2][-4:] == ["12", "min", "15", "min"]
    assert lines[3][2:] == ["dim.driver", "–", "no", "15", "min"]
    assert json.loads(run("pipeline", "graph", "orders", "--json").out)["edges"][0]["lag_seconds"] == 720


def test_lineage_is_listed_by_table(fake: FakeServer) -> None:
    shown = run("pipeline", "lineage", "orders")
    assert shown.out.splitlines()[0] == "mart.driver_daily"
    assert ["fares", "raw.trip.fare", "raw.trip.fare"] in [line.split() for line in shown.out.splitlines()]
    assert "its columns cannot be traced" in shown.out
    chosen = json.loads(run("pipeline", "lineage", "orders", "driver_daily", "--json").out)
    assert [table["table"] for table in chosen["tables"]] == ["mart.driver_daily"]
    assert run("pipeline", "lineage", "orders", "nothing").code == 1


def test_a_backfill_beside_the_runs_names_its_jobs(fake: FakeServer) -> None:
    shown: dict[str, Any] = {
        "id": "b",
        "pipeline": "orders",
        "table": "mart.driver_daily",
        "where": "driver = 1",
        "status": "active",
    }
    shown |= {"error": None, "created_at": AT.isoformat(), "created_by": None, "ended_at": None, "chunk_seconds": 300}
    shown |= {"beside": 4, "jobs": ["j1", "j2"], "total": 8, "done": 3, "chunks": []}
    fake.refusal = httpx.Response(202, json=shown)
    options = ("orders", "driver_daily", "--where", "driver = 1", "--beside", "4")
    assert "beside the runs  up to 4 jobs: j1, j2" in run("pipeline", "backfill", *options).out
    assert fake.sent[0][2] is not None
    assert (fake.sent[0][2]["beside"], fake.sent[0][2]["where"]) == (4, "driver = 1")
    assert run("pipeline", "backfill", *options, "--json").json["jobs"] == ["j1", "j2"]
    for wrong in ("0", "33", "x"):
        assert run("pipeline", "backfill", *options[:-1], wrong).code == 2
    assert len(fake.sent) == 2
