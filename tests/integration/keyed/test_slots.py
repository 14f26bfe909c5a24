"""An optimizer with three jobs at once dies, freezes, or hears its server badly: each job ends as if it were alone."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from optimizer.worker import Worker
from tests.integration.keyed.pending_tables import check, finished, pending_table
from tests.integration.keyed.supervisor import QUICK, mortal_optimizer, wait_for_kill
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon, and which does not soon give a job up."""
    times = {**QUICK, "FIRN_LEASE__MAX_ATTEMPTS": "50"}
    with running_server(tmp_path_factory.mktemp("firn") / "data", **times) as running:
        yield running


@pytest.fixture(scope="module")
def worker(server: RunningServer) -> Worker:
    return a_worker(server.url)


def asked_for_three(server: RunningServer, worker: Worker) -> dict[str, Table]:
    """Three tables with changes pending, by the ids of their merges."""
    tables = [pending_table(server, worker) for _ in range(3)]
    return {
        table.ask("merge", mode=mode): table for table, mode in zip(tables, ("rewrite", "vectors", "auto"), strict=True)
    }


@pytest.mark.parametrize("moment", ["before JobRun.commit 3", "before ServerApi.report 1"])
def test_killed_with_three_jobs_each_is_settled_by_its_record(
    server: RunningServer, worker: Worker, tmp_path: Path, moment: str
) -> None:
    requested_jobs = asked_for_three(server, worker)
    with mortal_optimizer(server.url, tmp_path, moment, slots=3) as process:
        wait_for_kill(process, tmp_path)
    for job_id, table in requested_jobs.items():
        finished(table, job_id)
        check(table)


def test_frozen_with_three_jobs_until_others_have_done_them_it_commits_nothing(
    server: RunningServer, worker: Worker, tmp_path: Path
) -> None:
    requested_jobs = asked_for_three(server, worker)
    with mortal_optimizer(server.url, tmp_path, "stop before JobRun.commit 3", slots=3) as process:
        wait_for(lambda: is_stopped(process.pid), "the moment to freeze", seconds=240)
        for job_id, table in requested_jobs.items():
            finished(table, job_id)
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: "stopped: " in log_of(tmp_path), "its hearing that it was too late")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    for table in requested_jobs.values():
        check(table)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"


def log_of(directory: Path) -> str:
    return (directory / "optimizer.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", [1, 2])
def test_lost_late_and_repeated_messages_change_no_jobs_end(server: RunningServer, worker: Worker, seed: int) -> None:
    requested_jobs = asked_for_three(server, worker)
    dice = random.Random(seed)
    lock = threading.Lock()

    def meddle(method: str, path: str, forward: Forward) -> httpx.Response | None:
        with lock:
            drawn = dice.random()
        if method == "GET" or drawn > 0.45:
            return forward()
        if drawn < 0.15:  # done, and nobody hears of it
            forward()
            return None
        if drawn < 0.3:  # delivered twice; the second answer is what comes back
            forward()
            return forward()
        time.sleep(drawn)
        return forward()

    with meddling_proxy(server.url, meddle) as proxy:
        hearing_badly = replace(a_worker(proxy.url), slots=3)
        thread = threading.Thread(target=hearing_badly.run)
        thread.start()
        try:
            wait_for(
                lambda: all(server.get(f"jobs/{job_id}")["status"] == "succeeded" for job_id in requested_jobs),
                "the success of all",
                seconds=240,
            )
        finally:
            hearing_badly.stopping.set()
            thread.join()
        assert proxy.lost
    for table in requested_jobs.values():
        check(table)
