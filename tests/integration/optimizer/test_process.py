"""An optimizer as a process of its own: started, stopped, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable, a_worker
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    times = {"FIRN_LEASE__SECONDS": "12", "FIRN_LEASE__HEARTBEAT_SECONDS": "2"}
    with running_server(tmp_path_factory.mktemp("process") / "data", **times) as running:
        yield running


@contextmanager
def an_optimizer(server: RunningServer, log: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "optimizer", "--server", server.url, "--master", "local[1]", *more]
    with (
        log.open("wb") as out,
        subprocess.Popen([*command, "--driver-memory", "700m", "--slots", "2"], stderr=out) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def keyed(server: RunningServer, worker: Worker) -> KeyedTable:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    table.upsert((1, "a"), (2, "b"))
    return table


def test_it_works_until_it_is_told_to_stop_and_then_leaves(hasty: RunningServer, tmp_path: Path) -> None:
    table = keyed(hasty, a_worker(hasty.url))
    job_id = table.ask("merge")
    with an_optimizer(hasty, tmp_path / "log") as process:
        wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "succeeded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")
    assert hasty.http.get("/api/v1/optimizers").json() == []
    assert table.rows(".base") == [(1, "a"), (2, "b")]


def test_without_its_java_it_takes_no_more_jobs_and_ends(hasty: RunningServer, tmp_path: Path) -> None:
    """It would fail each job in turn: a loop that a new process ends."""
    job_id = keyed(hasty, a_worker(hasty.url)).ask("merge")
    with an_optimizer(hasty, tmp_path / "log") as process:
        wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "succeeded")
        (java,) = children_of(process.pid)
        os.kill(java, signal.SIGKILL)
        assert process.wait(60) == 1
    assert "Java has ended" in (tmp_path / "log").read_text(encoding="utf-8")


def run_in_spark(server: RunningServer, statement: str) -> Any:
    """The query at its end."""
    body = {"statement": statement, "catalog": "lake", "engine": "spark"}
    wait_for(lambda: server.get("queries/settings")["spark"]["available"])
    query = server.post("queries", body)
    while query["state"] in ("queued", "running"):
        query = server.get(f"queries/{query['id']}?wait=5")
    return query


def test_a_query_that_needs_too_much_memory_fails_with_the_reason_and_the_next_one_runs(
    hasty: RunningServer, tmp_path: Path
) -> None:
    table = keyed(hasty, a_worker(hasty.url))
    with an_optimizer(hasty, tmp_path / "log", "--sql", "1") as process:
        assert run_in_spark(hasty, "SELECT 1")["state"] == "done"
        text = "array_join(array_repeat(concat(id, repeat('x', 1000000)), 5000), '')"
        hungry = run_in_spark(hasty, f"SELECT length({text}) FROM range(1)")
        assert hungry["state"] == "failed"
        assert "memory" in hungry["message"], hungry
        assert "Read fewer rows" in hungry["hint"]
        assert process.wait(240) == 1
    assert hasty.http.get("/api/v1/optimizers").json() == [], "it has left: its jobs are another optimizer's at once"
    job_id = table.ask("merge")
    with an_optimizer(hasty, tmp_path / "next", "--sql", "1"):
        wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "succeeded")
        assert run_in_spark(hasty, "SELECT 2")["state"] == "done"


def children_of(pid: int) -> list[int]:
    """The children of all threads: a slot's thread starts Spark."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text(encoding="ascii").split()]


def test_killed_in_the_middle_of_a_merge_it_leaves_nothing_that_the_next_one_cannot_finish(
    hasty: RunningServer, tmp_path: Path
) -> None:
    worker = a_worker(hasty.url)
    table = keyed(hasty, worker)
    before = table.rows()
    job_id = table.ask("merge")
    with an_optimizer(hasty, tmp_path / "log") as process:
        wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] in ("running", "committing"))
        process.kill()
    assert table.rows() == before
    optimizer_id = worker.api.register(**worker.about).id
    wait_for(lambda: worker.work_once(optimizer_id, wait_seconds=1))
    assert hasty.get(f"jobs/{job_id}")["status"] == "succeeded"
    assert table.rows() == table.rows(".base") == before
    assert hasty.rows(f"SELECT summary['firn.merged-through'] FROM {table.name}.base.snapshots") == [("1",)]
