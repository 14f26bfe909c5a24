"""kill -9 of an optimizer between two commits of one rewrite: what is committed stays, the rest is planned again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from threading import Lock
from typing import Any

import httpx
import pytest

from tests.integration.keyed.supervisor import QUICK, mortal_optimizer, wait_for_kill
from tests.integration.optimizer.plain_tables import check_readable, commits_of, files, insert, plain
from tests.keyed_tables import KeyedTable, a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon, and which plans by itself."""
    planning = {"FIRN_BACKGROUND__PLAN_SECONDS": "1"}
    with running_server(tmp_path_factory.mktemp("firn") / "data", **(QUICK | planning)) as running:
        yield running


def planned_and_run(table: KeyedTable, after: str) -> dict[str, Any]:
    """The job that the server plans for the table after another one, done."""

    def newest() -> dict[str, Any]:
        job: dict[str, Any] = table.server.get(f"catalogs/lake/tables/{table.short}/jobs")["items"][0]
        return job

    wait_for(lambda: newest()["id"] != after, "a job that nobody has asked for")
    assert table.worker.work_once(table.worker.api.register(**table.worker.about).id, wait_seconds=5)
    return newest()


@pytest.mark.parametrize("arrives", [False, True], ids=["before the second commit", "before its answer"])
def test_what_was_committed_stays_and_the_rest_is_done_again(
    server: RunningServer, tmp_path: Path, *, arrives: bool
) -> None:
    table: KeyedTable = plain(server, a_worker(server.url), "p", **{"firn.rewrite.min-files": "2"})
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "abc"])
    before = table.rows()
    job_id = table.ask("rewrite")
    lock, processes, committed = Lock(), list[Popen[bytes]](), list[httpx.Response]()

    def kills(method: str, path: str, forward: Forward) -> httpx.Response | None:
        if method != "POST" or "/tables/t" not in path:
            return forward()
        with lock:  # one of two that come at once is refused, and tried again
            if arrives or not committed:
                answer = forward()
                committed.extend([answer] if answer.is_success else [])
                if len(committed) < 2:
                    return answer
            processes[0].kill()
            return None

    with meddling_proxy(server.url, kills) as proxy, mortal_optimizer(proxy.url, tmp_path, "never 1") as process:
        processes.append(process)
        wait_for_kill(process, tmp_path)
    wait_for(lambda: server.get(f"jobs/{job_id}")["status"] not in ("committing", "unknown"), "the job's end")
    assert server.get(f"jobs/{job_id}")["status"] == "succeeded"
    done = 2 if arrives else 1
    assert commits_of(table, job_id) == [("replace", "2")] * done
    assert table.rows() == before
    check_readable(table)
    rest = planned_and_run(table, job_id)
    assert (rest["kind"], rest["status"], rest["result"]["groups_done"]) == ("rewrite", "succeeded", 3 - done)
    assert len(files(table)) == 3
    assert table.rows() == before
    check_readable(table)
