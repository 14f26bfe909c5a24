"""Optimizers that fall silent, come back too late, or never hear what became of their commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from firn.protocol.leases import Outcome, Result
from optimizer.errors import LeaseLost, Refused, SparkStopped
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.lease_keeper import LeaseKeeper
from optimizer.spark import SparkProcess, open_job_session
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable, a_worker
from tests.lossy_proxy import Forward, lossy_proxy, meddling_proxy
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases last three seconds."""
    times = {"FIRN_LEASE__SECONDS": "3", "FIRN_LEASE__HEARTBEAT_SECONDS": "1"}
    with running_server(tmp_path_factory.mktemp("hasty") / "data", **times) as running:
        yield running


def keyed(server: RunningServer, worker: Worker) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})


def merges_of(table: KeyedTable) -> list[tuple[Any, ...]]:
    return table.server.rows(f"SELECT summary['firn.merged-through'] FROM {table.name}.base.snapshots")


@pytest.mark.parametrize("mode", ["rewrite", "vectors"])
def test_an_optimizer_that_lost_its_lease_cannot_commit_what_another_has_merged(
    hasty: RunningServer, mode: str
) -> None:
    slow, quick = a_worker(hasty.url), a_worker(hasty.url)
    table = keyed(hasty, quick)
    table.upsert((1, "a"), (2, "b"))
    job_id = table.ask("merge", mode=mode)
    lease = slow.api.take_lease(slow.api.register(**slow.about).id, ["merge"])
    assert lease is not None
    slow.api.committing(lease)  # and now it falls silent
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "pending")
    assert quick.work_once(quick.api.register(**quick.about).id)
    table.upsert((1, "newer"))
    before = table.rows()

    class Deaf(LeaseKeeper):
        """Does not ask; only the catalog can stop it."""

        def committing(self) -> None: ...

    with open_job_session(slow.spark.session, slow.api, lease) as session:
        hold = Deaf(slow.api, lease, stopping=threading.Event())
        with pytest.raises((LeaseLost, Refused), match="lease"):
            JOBS["merge"].run(JobRun(slow.api, lease, hold, session))
    assert merges_of(table) == [("1",)]
    assert table.rows() == before == [(1, "newer"), (2, "b")]
    assert hasty.get(f"jobs/{job_id}")["status"] == "succeeded"


def test_an_optimizer_that_asks_first_stops_at_once(hasty: RunningServer) -> None:
    slow, quick = a_worker(hasty.url), a_worker(hasty.url)
    table = keyed(hasty, quick)
    table.upsert((1, "a"))
    job_id = table.ask("merge")
    lease = slow.api.take_lease(slow.api.register(**slow.about).id, ["merge"])
    assert lease is not None
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "pending")
    with LeaseKeeper(slow.api, lease, stopping=threading.Event()) as hold:
        assert slow._attempt(lease, hold) is None
    assert hasty.get(f"jobs/{job_id}")["status"] == "pending"
    assert quick.work_once(quick.api.register(**quick.about).id)
    assert table.rows(".base") == [(1, "a")]


def test_a_stopping_optimizer_hands_its_job_back(hasty: RunningServer) -> None:
    leaving, staying = a_worker(hasty.url), a_worker(hasty.url)
    table = keyed(hasty, staying)
    table.upsert((1, "a"))
    job_id = table.ask("merge")
    leaving_id = leaving.api.register(**leaving.about).id
    lease = leaving.api.take_lease(leaving_id, ["merge"])
    assert lease is not None
    leaving.stopping.set()
    with LeaseKeeper(leaving.api, lease, stopping=leaving.stopping) as hold:
        assert leaving._attempt(lease, hold) is None
    leaving.api.unregister(leaving_id)
    assert hasty.get(f"jobs/{job_id}")["status"] == "pending"
    assert staying.work_once(staying.api.register(**staying.about).id)
    assert table.rows(".base") == [(1, "a")]


@pytest.mark.parametrize("path_end", ["/committing", "/tables/base"])
def test_a_server_that_is_overwhelmed_fails_no_job(hasty: RunningServer, path_end: str) -> None:
    """It says so before a merge, and when a merge loads base: the job goes back when its lease lapses."""

    def meddle(_method: str, path: str, forward: Forward) -> httpx.Response | None:
        return httpx.Response(503, json={"error": {"message": "busy"}}) if path.endswith(path_end) else forward()

    worker = a_worker(hasty.url)
    table = keyed(hasty, worker)
    table.upsert((1, "a"))
    job_id = table.ask("merge")
    with meddling_proxy(hasty.url, meddle) as proxy:
        away = a_worker(proxy.url)
        assert away.work_once(away.api.register(**away.about).id)
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "pending")
    assert worker.work_once(worker.api.register(**worker.about).id)
    assert table.rows(".base") == [(1, "a")]


def test_a_job_that_fails_because_spark_has_stopped_is_left_to_its_lease(hasty: RunningServer) -> None:
    stopped = threading.Event()

    def broken(_: JobRun) -> Result:
        stopped.set()
        raise Refused("Job aborted because SparkContext was shut down")

    whole = a_worker(hasty.url)
    spark = SparkProcess.of(whole.spark.session)
    spark.has_stopped = stopped.is_set  # type: ignore[method-assign]
    merge = replace(JOBS["merge"], run=broken, run_without_spark=None)
    stuck = replace(whole, jobs={"merge": merge}, spark=spark)
    table = keyed(hasty, whole)
    table.upsert((1, "a"))
    job_id, optimizer_id = table.ask("merge"), stuck.api.register(**stuck.about).id
    assert stuck.work_once(optimizer_id)
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "pending")
    with pytest.raises(SparkStopped):
        stuck.work_once(optimizer_id)
    assert not whole.spark.has_stopped()
    assert whole.work_once(whole.api.register(**whole.about).id)
    assert table.rows(".base") == [(1, "a")]


def test_a_stop_in_the_middle_of_a_write_cuts_it_off_and_another_does_the_job(hasty: RunningServer) -> None:
    """The server was told that a commit comes, and none was asked for: Spark had not written everything."""
    begun = threading.Event()

    def endless(work: JobRun) -> Result:
        def write() -> None:
            begun.set()
            work.session.spark.range(0, 10**13, 1, 1).selectExpr("sum(hash(id))").collect()

        work.commit(write)
        return Result(outcome=Outcome.COMMITTED)

    staying = a_worker(hasty.url)
    leaving = replace(a_worker(hasty.url), jobs={"merge": replace(JOBS["merge"], run=endless)})
    table = keyed(hasty, staying)
    table.upsert((1, "a"))
    job_id, leaving_id = table.ask("merge"), leaving.api.register(**leaving.about).id
    thread = threading.Thread(target=leaving.work_once, args=(leaving_id,))
    thread.start()
    assert begun.wait(60)
    leaving.stopping.set()
    thread.join(60)
    assert not thread.is_alive()
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "pending")
    assert staying.work_once(staying.api.register(**staying.about).id)
    assert table.rows(".base") == [(1, "a")]


def test_a_merge_whose_answer_is_lost_for_good_is_settled_by_its_record(hasty: RunningServer) -> None:
    def loses(method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/tables/base")

    with lossy_proxy(hasty.url, loses) as proxy:
        worker = a_worker(proxy.url)
        table = keyed(hasty, worker)
        table.upsert((1, "a"))
        job_id = table.ask("merge")
        assert worker.work_once(worker.api.register(**worker.about).id)
        assert proxy.lost
    wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] != "unknown")
    assert hasty.get(f"jobs/{job_id}")["status"] == "succeeded"
    assert merges_of(table) == [("1",)]
    assert table.rows() == table.rows(".base") == [(1, "a")]
