"""Airflow with a real server and no optimizer: tasks whose runs wait until somebody cancels them, and the provider."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import firn
from tests.docs.blocks import DOCS, blocks
from tests.integration.schedulers.lake import put_plain_pipeline
from tests.integration.schedulers.scheduler import Scheduler
from tests.spark_fixtures import ServerProcess, server_process

PAGE = (DOCS / "pipelines-from-airflow.md").read_text("utf-8")
BLOCKS = [block.text for block in blocks(PAGE) if "from airflow.sdk" in block.text]
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("firn") / "data") as running:
        yield running


def test_a_run_whose_task_may_not_last_so_long_is_canceled(airflow: Scheduler, server: ServerProcess) -> None:
    name = put_plain_pipeline(server)
    blocking, deferred, unknown = airflow.run_dags(server.url, name, "limited", "limited_deferred", "unknown")
    assert blocking["tasks"] == deferred["tasks"] == {"waits": ["failed", 1]}
    with firn.connect(server.url) as client:
        assert [run.status for run in client.pipelines[name].runs()] == ["canceled", "canceled"]
    assert unknown["tasks"] == {"unknown": ["failed", 1]}


def test_the_parts_of_the_provider(airflow: Scheduler, server: ServerProcess) -> None:
    name = put_plain_pipeline(server)
    parts = airflow.result_of(
        "airflow_parts.py",
        PIPELINE=name,
        FIRN_URL=server.url,
        AIRFLOW_CONN_FIRN_DEFAULT=f'{{"conn_type": "firn", "host": "{server.url}"}}',
        BLOCKS=json.dumps(BLOCKS),
        AIRFLOW_CONN_AWAY='{"conn_type": "firn", "host": "127.0.0.1", "port": 9}',
    )
    assert parts["cheap"]
    assert parts["page"] == {
        "correct": ["firn://lake/mart/driver_daily"],
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
    backfill = parts["backfill"]
    assert backfill["where"] == "`day` >= DATE '2026-11-28' AND `day` < DATE '2026-11-29'"
    assert backfill["same"]
    assert backfill["outlets"] == [f"firn://lake/mart/daily_{name.rpartition('_')[2]}"]
    unbuilt, both = backfill["errors"]
    assert unbuilt[0] == "AirflowException"
    assert "each run computes all rows" in unbuilt[1]
    assert both[0] == "AirflowFailException"
    assert "write one of both" in both[1]
    assert parts["trigger"] == {"statuses": [["pending"], ["canceled"]]}
    works, away = parts["hook"]["works"], parts["hook"]["away"]
    assert works == [True, "the server answers; its catalogs: lake"]
    assert not away[0]
    assert "no Firn server answers" in away[1]
