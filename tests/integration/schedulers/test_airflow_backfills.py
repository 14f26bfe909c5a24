"""Airflow with a real server and a real optimizer: tasks that compute rows of a table again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import firn
from firn.protocol.backfills import BackfillOut
from tests.integration.keyed.supervisor import working
from tests.integration.schedulers.lake import DailyPipeline
from tests.integration.schedulers.scheduler import Scheduler, name_server
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
DRIVERS = [(driver, day) for driver in (1, 2) for day in (1, 2, 3)]
DAYS = "`day` >= DATE '2026-11-01' AND `day` < DATE '2026-11-03'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Its planner starts the runs of backfills, which those of other tests do not do."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", FIRN_BACKGROUND__PLAN_SECONDS="1") as running:
        yield running


@pytest.fixture
def table(server: RunningServer, tmp_path: Path) -> DailyPipeline:
    """A table that is built, and whose rows somebody has damaged then."""
    pipeline = DailyPipeline(server, tmp_path)
    with working(server.url):
        pipeline.run()
    pipeline.damage()
    assert pipeline.damaged_days() == DRIVERS
    return pipeline


def find_open(table: DailyPipeline) -> list[BackfillOut]:
    return [backfill for backfill in table.backfills() if backfill.status == "active"]


def test_dags_compute_days_and_rows_again(airflow: Scheduler, table: DailyPipeline) -> None:
    with working(table.server.url):
        days, driver = airflow.run_dags(table.server.url, table.name, "days_again", "driver_again")
    assert (days["state"], driver["state"]) == ("success", "success"), (days, driver)
    (by_days,), (by_driver,) = days["values"]["again"], driver["values"]["again"]
    assert [(facts["where"], facts["chunks"], facts["done"]) for facts in (by_days, by_driver)] == [
        (DAYS, 2, 2),
        ("driver = 2", 1, 1),
    ]
    assert days["events"] == {f"firn://lake/mart/{table.daily[5:]}": by_days}
    assert [backfill.id for backfill in table.backfills()] == [by_driver["backfill_id"], by_days["backfill_id"]]
    assert table.damaged_days() == [(1, 3)]


def test_a_retry_resumes_a_backfill_that_has_failed(airflow: Scheduler, table: DailyPipeline) -> None:
    with working(table.server.url), table.unreadable() as (hidden, mended):
        moved = {"HIDDEN": str(hidden), "MENDED": str(mended)}
        with ThreadPoolExecutor() as pool:
            running = pool.submit(airflow.run_dags, table.server.url, table.name, "tried_twice", **moved)
            while not running.done() and not mended.exists():
                table.try_to_run()  # the planner would wait a minute before the next attempt
            (done,) = running.result()
    assert (done["state"], done["tasks"]) == ("success", {"again": ["success", 2]}), done
    (backfill,) = table.backfills()
    (error,) = done["errors"]
    assert f"backfill {backfill.id} of {table.daily} failed: " in error
    assert "(0 of 1 chunks are done)" in error
    assert backfill.status == "finished"
    assert table.damaged_days() == [(1, 3), (2, 3)]


def test_a_backfill_that_fails_fails_the_task(airflow: Scheduler, table: DailyPipeline) -> None:
    with working(table.server.url), table.unreadable(), ThreadPoolExecutor() as pool:
        running = pool.submit(airflow.run_dags, table.server.url, table.name, "days_again")
        while not running.done():
            table.try_to_run()
        (done,) = running.result()
    assert (done["state"], done["tasks"]) == ("failed", {"again": ["failed", 1]})
    (backfill,) = table.backfills()
    (error,) = done["errors"]
    assert error.startswith(f"backfill {backfill.id} of {table.daily} failed: 2 runs have tried chunk 1")
    assert table.damaged_days() == DRIVERS


def test_a_backfill_that_a_user_cancels_fails_the_task(airflow: Scheduler, table: DailyPipeline) -> None:
    with ThreadPoolExecutor() as pool, firn.connect(table.server.url) as client:
        running = pool.submit(airflow.run_dags, table.server.url, table.name, "days_again")
        wait_for(lambda: running.done() or bool(find_open(table)), "the backfill of the task")
        (backfill,) = find_open(table)
        client.pipelines[table.name].cancel(table.daily, backfill.id)
        (done,) = running.result()
    assert (done["state"], done["tasks"]) == ("failed", {"again": ["failed", 1]})
    assert [error.partition(": ")[0] for error in done["errors"]] == [
        f"backfill {backfill.id} of {table.daily} was canceled"
    ]
    assert [entry.status for entry in table.backfills()] == ["canceled"]


@pytest.mark.parametrize("dag", ["impatient", "impatient_deferred"])
def test_a_retry_takes_over_a_backfill_whose_answer_was_lost(
    airflow: Scheduler, table: DailyPipeline, dag: str
) -> None:
    requests = list[str]()

    def loses(method: str, path: str) -> bool:
        if method != "POST" or not path.endswith("/backfills"):
            return False
        requests.append(path)
        return len(requests) == 1

    with working(table.server.url), lossy_proxy(table.server.url, loses) as proxy:
        (done,) = airflow.run_dags(proxy.url, table.name, dag)
    assert (done["state"], done["tasks"]) == ("success", {"again": ["success", 2]}), done
    assert len(proxy.lost) == 1
    assert len(requests) == 2
    assert [entry.id for entry in table.backfills()] == [done["values"]["again"][0]["backfill_id"]]
    assert table.damaged_days() == [(1, 3), (2, 3)]


def test_a_task_whose_worker_is_killed_goes_on_with_its_backfill(airflow: Scheduler, table: DailyPipeline) -> None:
    named = {"SAME_RUN": "1"}
    place = name_server(table.server.url, table.name)
    with airflow.running("airflow_run.py", "days_again", **named, **place) as worker:
        wait_for(lambda: worker.poll() is not None or bool(find_open(table)), "the backfill of the task")
        (backfill,) = find_open(table)
        worker.kill()
    with working(table.server.url):
        (done,) = airflow.run_dags(table.server.url, table.name, "days_again", **named)
    assert done["state"] == "success", done
    assert [entry.id for entry in table.backfills()] == [backfill.id]
    assert done["values"]["again"][0]["backfill_id"] == backfill.id
    assert table.damaged_days() == [(1, 3), (2, 3)]
