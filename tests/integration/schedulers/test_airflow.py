"""Airflow with a real server and a real optimizer: what a DAG's tasks do, and what happens when they are killed."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from tests.docs.blocks import DOCS, blocks
from tests.integration.keyed.supervisor import working
from tests.integration.schedulers.lake import ScheduledPipeline
from tests.integration.schedulers.scheduler import PROGRAMS, Scheduler
from tests.spark_fixtures import RunningServer

PAGE = (DOCS / "pipelines-from-airflow.md").read_text("utf-8")
BLOCKS = [block.text for block in blocks(PAGE) if "from airflow.sdk" in block.text]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def airflow(client_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    copy(PROGRAMS / "airflow_dags.py", home / "dags" / "airflow_dags.py")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "PIPELINE": "orders_0",
    }
    scheduler = Scheduler("airflow", client_site, home, settings)
    migrated = scheduler.run("-m", "airflow", "db", "migrate")
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    return scheduler


def run_dag(airflow: Scheduler, pipeline: ScheduledPipeline, dag: str) -> Any:
    connection = f'{{"conn_type": "firn", "host": "{pipeline.server.url}"}}'
    return airflow.result_of("airflow_run.py", dag, PIPELINE=pipeline.name, AIRFLOW_CONN_FIRN_DEFAULT=connection)


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


def test_a_run_whose_task_may_not_last_so_long_is_canceled(airflow: Scheduler, pipeline: ScheduledPipeline) -> None:
    """No optimizer is there, so runs wait until they are canceled."""
    for dag in ("limited", "limited_deferred"):
        done = run_dag(airflow, pipeline, dag)
        assert (done["state"], done["tasks"]) == ("failed", {"waits": ["failed", 1]})
        assert set(pipeline.statuses()) == {"canceled"}
    assert len(pipeline.statuses()) == 2
    unknown = run_dag(airflow, pipeline, "unknown")
    assert unknown["tasks"] == {"unknown": ["failed", 1]}


def test_the_parts_of_the_provider(airflow: Scheduler, pipeline: ScheduledPipeline) -> None:
    parts = airflow.result_of(
        "airflow_parts.py",
        PIPELINE=pipeline.name,
        FIRN_URL=pipeline.server.url,
        AIRFLOW_CONN_FIRN_DEFAULT=f'{{"conn_type": "firn", "host": "{pipeline.server.url}"}}',
        BLOCKS=json.dumps(BLOCKS),
        AIRFLOW_CONN_AWAY='{"conn_type": "firn", "host": "127.0.0.1", "port": 9}',
    )
    assert parts["cheap"]
    assert parts["page"] == {
        "orders": ["firn://lake/mart/city_daily", "firn://lake/mart/driver_daily"],
        "report": ["firn://lake/mart/city_rank"],
    }
    assert parts["provider"] == {"provider": True, "hook": ["Firn", "firn_conn_id"], "handler": True}
    assert [*parts["addresses"].values()] == [
        *("http://h:8630", "https://h:443", "http://h:1", "http://[::1]:8630"),
        *("Invalid", "Invalid"),
    ]
    assert parts["assets"] == {
        "uri": "firn://l%40ke%3A1/a.b/x%2Fy%20%3F%23%40%3A%C3%A4",
        "back": ["l@ke:1", "`a.b`.x/y ?#@:ä"],
        "refused": ["firn://lake/orders", "firn://", "firn://lake/a//b", "firn://lake/a/b?c=d"],
        "other": None,
    }
    assert parts["keys"] == {"retry": [True, 3], "cleared": [False, 1, True], "others": 4}
    assert parts["trigger"] == {"statuses": [["pending"], ["canceled"]]}
    works, away = parts["hook"]["works"], parts["hook"]["away"]
    assert works == [True, "the server answers; its catalogs: lake"]
    assert not away[0]
    assert "no Firn server answers" in away[1]
