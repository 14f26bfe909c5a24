"""`firn pipeline plan --analyze`: what the next run does, in lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

import firn
from firn.cli import context
from firn.cli.pipeline_plans import explain_run
from firn.protocol.pipeline_plan import InputPlanOut, PipelinePlanOut, RunPlanOut
from tests.command_line import Command

AT = datetime(2026, 1, 5, 9, 40, tzinfo=UTC)
TRIPS = InputPlanOut(
    table="raw.trip",
    is_changed=True,
    commits=186,
    files=31,
    bytes=44 * 2**20,
    rows=2100,
    total_bytes=2**30,
    terms=["driver, day are read from its changed rows"],
)
DRIVERS = InputPlanOut(table="dim.driver", is_changed=False, total_bytes=2048, terms=["driver is in its changed rows"])
run = Command("http://127.0.0.1:9")


def plan(**more: Any) -> RunPlanOut:
    known: dict[str, Any] = {
        "table": "mart.driver_daily",
        "mode": "incremental",
        "reason": "predicted to read 96 MiB incrementally, 1,126 MiB in full",
        "refresh": "strict",
        "key": ["driver", "day"],
        "scope": ["driver", "day"],
        "inputs": [TRIPS, DRIVERS],
        "since": AT,
        "incremental_bytes": 96 * 2**20,
        "full_bytes": 1126 * 2**20,
        "predicted_seconds": 18,
        "full_seconds": 120,
    }
    return RunPlanOut(**known | more)


@pytest.fixture
def requested_urls() -> Iterator[list[httpx.URL]]:
    """A server of one plan, and what it is asked for."""
    urls: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        refused = plan(mode="fails", reason="mart.a reads raw.b, and there is no table of this name", inputs=[])
        tables = [refused if "broken" in request.url.path else plan()]
        planned = PipelinePlanOut(pipeline="orders", version=1, at=AT, tables=tables)
        return httpx.Response(200, json=planned.model_dump(mode="json"))

    def connect(*_: Any, **options: Any) -> firn.Client:
        return firn.connect("http://127.0.0.1:9", transport=httpx.MockTransport(answer), catalog=options["catalog"])

    with patch.object(context, "connect", connect):
        yield urls


def test_the_lines_say_what_changed_and_what_either_way_reads() -> None:
    lines = explain_run(plan(chunks=True, max_commits=200, blocked="run 7 waits for approval"))
    assert lines[0] == "mart.driver_daily  incremental, scope driver, day (its key)  strict"
    assert lines[1].split("  ") == [
        "",
        "raw.trip",
        "",
        "186 commits (31 files, 44.0 MiB, 2,100 rows)",
        "driver, day are read from its changed rows",
    ]
    assert lines[2].split()[:3] == ["dim.driver", "not", "changed"]
    assert lines[4:] == [
        "  the run computes a part of a backfill, too",
        "  a run takes at most 200 new commits, and the next one continues",
        "  reads about 96.0 MiB, in full 1.1 GiB; at most 18 s predicted; the last full run took 2 min",
        "  no run can begin now: run 7 waits for approval",
    ]


def test_a_run_of_all_rows_says_why() -> None:
    new = [InputPlanOut(table="raw.trip", is_changed=None, total_bytes=2048, terms=[])]
    gone = [InputPlanOut(table="raw.trip", is_changed=None, terms=[])]
    lines = explain_run(plan(mode="full", reason="the first run", inputs=new, since=None, refresh="auto"))
    assert lines[:2] == ["mart.driver_daily  full: the first run", "  raw.trip  all 2.0 KiB"]
    assert explain_run(plan(mode="fails", reason="gone", inputs=gone))[1] == "  raw.trip  does not exist"


def test_the_pipeline_is_named_or_that_of_a_folder(requested_urls: list[httpx.URL], tmp_path: Path) -> None:
    assert "186 commits" in run("pipeline", "plan", "orders", "mart.driver_daily", "--analyze").out
    assert run("pipeline", "plan", "orders", "--analyze", "--json").json["tables"][0]["full_seconds"] == 120
    assert [url.path for url in requested_urls] == ["/api/v1/pipelines/orders/plan"] * 2
    assert dict(requested_urls[0].params) == {"table": "mart.driver_daily"}
    assert run("pipeline", "init", str(tmp_path / "trips")).code == 0
    assert run("pipeline", "plan", str(tmp_path / "trips"), "--analyze").code == 0
    assert (len(requested_urls), requested_urls[-1].path) == (
        3,
        "/api/v1/pipelines/trips/plan",
    )  # the name in the folder


def test_a_run_that_would_be_refused_ends_the_command_with_1(requested_urls: list[httpx.URL]) -> None:
    refused = run("pipeline", "plan", "broken", "--analyze")
    assert (refused.code, len(requested_urls)) == (1, 1)
    assert "fails: mart.a reads raw.b" in refused.out
    both = run("pipeline", "plan", "orders", "--analyze", "--sql")
    assert (both.code, len(requested_urls)) == (2, 1)
    assert "exclude each other" in both.err
