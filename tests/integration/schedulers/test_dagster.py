"""Dagster with a real server and a real optimizer: tables as assets, and commits of others as observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import DOCS, blocks
from tests.integration.keyed.supervisor import working
from tests.integration.schedulers.lake import ScheduledPipeline
from tests.integration.schedulers.scheduler import Scheduler
from tests.spark_fixtures import RunningServer
from tests.waiting import wait_for

PAGE = (DOCS / "pipelines-from-airflow.md").read_text("utf-8")
(BLOCK,) = [block.text for block in blocks(PAGE) if "from dagster" in block.text]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def dagster(client_site: Path, tmp_path: Path) -> Scheduler:
    home = tmp_path / "dagster"
    home.mkdir()
    return Scheduler("dagster", client_site, home, {"DAGSTER_DISABLE_TELEMETRY": "1"})


def test_assets_are_the_tables_of_a_pipeline(
    dagster: Scheduler, server: RunningServer, pipeline: ScheduledPipeline
) -> None:
    def run() -> Any:
        named = {"PIPELINE": pipeline.name, "FIRN_URL": server.url, "FIRN_TOKEN": "", "BLOCK": BLOCK}
        return dagster.result_of("dagster_run.py", **named)

    with working(server.url):
        first = run()
        pipeline.add("(3, -1.00)")
        failed = run()
    number = pipeline.number
    trip, daily, total = (f"lake/{name}_{number}" for name in ("raw/trip", "mart/daily", "mart/total"))
    assert first["success"], first
    assert first["parents"] == {trip: [], daily: [trip], total: [daily]}
    materialized = first["materialized"]
    assert {name: facts["written"] for name, facts in materialized.items()} == {daily: 2, total: 1}
    assert materialized[daily]["job"] == f"{server.url}/jobs/{materialized[daily]['run_id']}"
    assert first["version"] == materialized[daily]["checkpoint"]
    assert first["observed"] == [trip]
    assert first["observed_again"] == [0, 1]
    assert not failed["success"]
    assert failed["materialized"] == {}
    (failure,) = failed["failures"]
    assert "validator no negative fares: 1 rows" in failure["description"]


def test_dagsters_retry_of_a_dead_run_takes_over_its_run_and_a_user_starts_another_one(
    dagster: Scheduler, server: RunningServer, pipeline: ScheduledPipeline
) -> None:
    named = {"PIPELINE": pipeline.name, "FIRN_URL": server.url, "FIRN_TOKEN": "", "DAGSTER_HOME": str(dagster.home)}
    with dagster.running("dagster_retry.py", "first", **named) as worker:
        wait_for(lambda: worker.poll() is not None or pipeline.statuses() == ["pending"], "the run of the first table")
        worker.kill()
    assert pipeline.statuses() == ["pending"]
    (dead,) = pipeline.run_ids()
    with working(server.url):
        retry = dagster.result_of("dagster_retry.py", "retry", **named)
        assert (retry["success"], retry["runs"][0], len(retry["runs"])) == (True, dead, 2), retry
        assert len(pipeline.statuses()) == 2
        repeated = dagster.result_of("dagster_retry.py", "user", **named)
    assert repeated["success"]
    assert not {*repeated["runs"]} & {*retry["runs"]}
    assert pipeline.statuses() == ["succeeded"] * 4
