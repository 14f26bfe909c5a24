"""Airflow with a real server and a real optimizer: what a DAG's tasks do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.keyed.supervisor import working
from tests.integration.schedulers.lake import ScheduledPipeline
from tests.integration.schedulers.scheduler import Scheduler
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def run_dag(airflow: Scheduler, pipeline: ScheduledPipeline, dag: str) -> Any:
    (done,) = airflow.run_dags(pipeline.server.url, pipeline.name, dag)
    return done


def test_a_dag_waits_for_an_input_and_runs_the_tables(
    airflow: Scheduler, server: RunningServer, pipeline: ScheduledPipeline
) -> None:
    with working(server.url):
        first = run_dag(airflow, pipeline, "deferred")
        pipeline.add("(2, 0.50), (3, 6.00)")
        second = run_dag(airflow, pipeline, "blocking")
        pipeline.add("(3, -100.00)")
        third = run_dag(airflow, pipeline, "blocking")
    assert first["state"] == "success", first
    daily, total = first["values"]["both"]
    assert [(part["table"], part["mode"], part["written"]) for part in (daily, total)] == [
        (pipeline.daily, "full", 2),
        (pipeline.total, "full", 1),
    ]
    assert first["values"]["current"]["checkpoint"] == total["checkpoint"]
    assert first["events"] == {f"firn://lake/mart/{part['table'][5:]}": part for part in (daily, total)}
    assert second["values"]["daily"][0]["mode"] == "full"
    assert server.rows(f"SELECT * FROM lake.{pipeline.daily}")[2][:2] == (3, 1)
    assert (third["state"], third["tasks"]["daily"][0]) == ("failed", "failed")
    assert pipeline.statuses() == ["failed", "succeeded", "succeeded", "succeeded"]
