"""Two at the same thing: two optimizers on one job, one batch twice at once, a cancel beside a commit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import httpx
import pytest
from pyspark.sql import SparkSession

from firn.spark.local_frames import create_local_frame
from firn.spark.sessions import catalog_conf
from firn.spark.write import upsert
from optimizer.worker import Worker
from tests.integration.keyed.fake_optimizer import STEPS, FakeOptimizer
from tests.integration.keyed.model import LONG, TEXT, Shape
from tests.integration.keyed.supervisor import QUICK, mortal_optimizer
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, running_server, shared_spark
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

T = TypeVar("T")
SHAPE = Shape(columns={"id": LONG, "v": TEXT}, key=("id",))
OLD, NEW = {"id": 1, "v": "old"}, {"id": 1, "v": "new"}
ROUNDS = 8


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("hasty") / "data", **QUICK) as running:
        yield running


@pytest.fixture
def table(server: RunningServer, worker: Worker) -> Table:
    return pending_table(server, worker)


def pending_table(server: RunningServer, worker: Worker) -> Table:
    table = Table.create(server, worker, SHAPE)
    change(table, OLD)
    return table


def change(table: Table, row: dict[str, object]) -> None:
    answer = table.change.append([{**row, "_op": "U", "_source": None}])
    assert answer.is_success, answer.text


def status(table: Table, job_id: str) -> str:
    return str(table.server.get(f"jobs/{job_id}")["status"])


def at_once(*calls: Callable[[], T]) -> list[T]:
    """The results of calls that begin together."""
    barrier = Barrier(len(calls))

    def begun(call: Callable[[], T]) -> T:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begun, calls))


def test_an_optimizer_that_was_frozen_while_it_committed_wakes_up_to_nothing(
    hasty: RunningServer, tmp_path: Path
) -> None:
    worker = a_worker(hasty.url)
    table = pending_table(hasty, worker)
    job_id = table.ask("merge", mode="rewrite")
    with mortal_optimizer(hasty.url, tmp_path, "stop after ServerApi.committing 1") as process:
        wait_for(lambda: _is_frozen(process.pid), "the frozen optimizer")
        wait_for(lambda: status(table, job_id) == "pending", "the end of its lease")
        assert worker.work_once(worker.api.register(**worker.about).id)
        assert status(table, job_id) == "succeeded"
        change(table, NEW)
        log = tmp_path / "optimizer.log"
        os.kill(process.pid, signal.SIGCONT)
        wait_for(lambda: "stopped: " in log.read_text(encoding="utf-8"), "the refusal of its commit")
    assert len(table.base.load()["snapshots"]) == 1
    assert table.by_arrow() == table.by_spark() == {(1,): NEW}
    assert (status(table, job_id), table.active_jobs()) == ("succeeded", [])
    table.run("merge")
    assert table.by_arrow(".base") == {(1,): NEW}


def test_nothing_that_a_lost_lease_asks_for_is_done(hasty: RunningServer) -> None:
    """Neither before the second optimizer has committed nor after it."""
    table = pending_table(hasty, a_worker(hasty.url))
    table.ask("merge")
    first, second = FakeOptimizer(table), FakeOptimizer(table)
    first.run(until="committing")
    commit = first.prepared_merge()
    wait_for(lambda: second.take().status_code == httpx.codes.OK, "the second lease")
    assert second.lease["job_id"] == first.lease["job_id"]
    refused = [first.send_merge(commit), first.clean(), first.beat(), first.committing(), first.report()]
    assert [answer.status_code for answer in refused] == [httpx.codes.FORBIDDEN] * len(refused)
    for step in ("committing", "merge"):
        assert getattr(second, step)().status_code == httpx.codes.OK
    refused = [first.send_merge(commit), first.clean(), first.report()]
    assert [answer.status_code for answer in refused] == [httpx.codes.FORBIDDEN] * len(refused)
    for step in ("clean", "report"):
        assert getattr(second, step)().status_code == httpx.codes.OK
    assert table.by_arrow() == table.by_arrow(".base") == {(1,): OLD}
    table.check_stores()


def test_one_lease_is_given_to_one_of_many(table: Table) -> None:
    table.ask("merge")
    optimizers = [FakeOptimizer(table) for _ in range(6)]
    answers = at_once(*(optimizer.take for optimizer in optimizers))
    assert sorted(answer.status_code for answer in answers) == [httpx.codes.OK] + [httpx.codes.NO_CONTENT] * 5
    winner = next(optimizer for optimizer in optimizers if optimizer.lease)
    for step in STEPS[1:]:
        assert getattr(winner, step)().status_code == httpx.codes.OK


def test_an_optimizer_that_died_waiting_is_given_nothing(table: Table) -> None:
    dead = FakeOptimizer(table)
    with pytest.raises(httpx.ReadTimeout):
        dead.take(patience=0.5)
    job_id = table.ask("merge")
    time.sleep(1)  # its request looks for work every 0.3 s
    job = table.server.get(f"jobs/{job_id}")
    assert (job["status"], job["attempt"]) == ("pending", 0)
    FakeOptimizer(table).run()
    assert status(table, job_id) == "succeeded"


def test_one_commit_sent_twice_at_once_is_applied_once(table: Table) -> None:
    optimizer = FakeOptimizer(table)
    table.ask("merge")
    optimizer.run(until="committing")
    commit = optimizer.prepared_merge()
    answers = at_once(*[partial(optimizer.send_merge, commit)] * 4)
    assert [answer.status_code for answer in answers] == [httpx.codes.OK] * 4
    assert len(table.base.load()["snapshots"]) == 1


def test_one_batch_sent_by_two_writers_at_once_is_applied_once(server: RunningServer, table: Table) -> None:
    frames = [create_local_frame(_session(server), [(2, text)], "id BIGINT, v STRING") for text in "ab"]
    written = at_once(*(partial(upsert, frame, table.name, batch="b", writer="w") for frame in frames))
    assert sorted(batch.was_there for batch in written) == [False, True]
    first = "ab"[[batch.was_there for batch in written].index(False)]
    assert table.by_arrow() == table.by_spark() == {(1,): OLD, (2,): {"id": 2, "v": first}}
    assert len(server.rows(f"SELECT * FROM {table.name}.change WHERE id = 2")) == 1


def test_of_many_requests_for_one_batch_one_is_applied(table: Table) -> None:
    named = {"firn.writer-id": "w", "firn.batch-id": "b"}
    commits = [table.change.prepared([{"id": 2, "v": text, "_op": "U", "_source": None}], named) for text in "abcd"]
    answers = at_once(*(partial(table.change.send, commit) for commit in commits))
    applied = [text for text, answer in zip("abcd", answers, strict=True) if answer.is_success]
    assert len(applied) == 1
    assert table.by_arrow() == {(1,): OLD, (2,): {"id": 2, "v": applied[0]}}


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_cancel_beside_a_commit_wins_whole_or_not_at_all(table: Table, number: int) -> None:
    job_id = table.ask("merge")
    optimizer = FakeOptimizer(table)
    optimizer.run(until="committing")
    commit = optimizer.prepared_merge()
    canceled, committed = at_once(
        lambda: table.server.http.post(f"/api/v1/jobs/{job_id}/cancel"), lambda: optimizer.send_merge(commit)
    )
    if canceled.is_success:
        assert committed.status_code == httpx.codes.FORBIDDEN
        assert (status(table, job_id), table.show()["watermark"]) == ("canceled", 0)
        assert optimizer.report().status_code == httpx.codes.FORBIDDEN
    else:
        assert (canceled.status_code, committed.status_code) == (httpx.codes.CONFLICT, httpx.codes.OK)
        assert optimizer.report().json()["status"] == "succeeded"
    assert table.by_arrow() == {(1,): OLD}
    assert table.active_jobs() == []
    table.run("merge")
    assert table.by_arrow(".base") == {(1,): OLD}


def _session(server: RunningServer) -> SparkSession:
    session = shared_spark().newSession()
    for key, value in catalog_conf(server.url, "lake").items():
        session.conf.set(key, value)
    return session


def _is_frozen(pid: int) -> bool:
    """By the state in Linux's process table."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
