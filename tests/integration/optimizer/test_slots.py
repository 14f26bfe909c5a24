"""Several jobs side by side in one Spark: each has a session, a tag and a commit of its own, and leaves nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from firn.protocol.leases import Outcome, Result
from optimizer.job import RunJob
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.progress import last_job_failed, read_progress
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable, a_worker
from tests.spark_fixtures import RunningServer, running_server, shared_spark
from tests.waiting import wait_for

QUICK = {"FIRN_LEASE__SECONDS": "9", "FIRN_LEASE__HEARTBEAT_SECONDS": "1"}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that hears of a canceled job's end soon."""
    with running_server(tmp_path_factory.mktemp("slots") / "data", **QUICK) as running:
        yield running


@contextmanager
def working(url: str, slots: int, runs: Mapping[str, RunJob]) -> Iterator[Worker]:
    """An optimizer that works on and on in threads of this process."""
    jobs = {kind: replace(JOBS[kind], run=run) for kind, run in runs.items()}
    worker = replace(a_worker(url), slots=slots, jobs=jobs)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stopping.set()
        thread.join()


def keyed(server: RunningServer) -> KeyedTable:
    table = KeyedTable(server, a_worker(server.url), "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    table.upsert((1, "a"), (2, "b"))
    return table


def all_over(server: RunningServer, jobs: list[str]) -> bool:
    return all(server.get(f"jobs/{job}")["ended_at"] is not None for job in jobs)


@pytest.mark.spark
def test_jobs_side_by_side_sign_their_own_commits_alone(quick: RunningServer) -> None:
    """MERGE is signed through its session's settings: they would leak into whatever else commits at that moment."""
    tables = [keyed(quick) for _ in range(3)]
    first = [table.run("merge")["id"] for table in tables]
    for table in tables:
        table.upsert((2, "B"), (3, "c"))
    together = threading.Barrier(3, timeout=60)

    def merge(work: JobRun) -> Result:
        together.wait()  # broken, and the job failed, unless three run at one time
        return JOBS["merge"].run(work)

    jobs = [table.ask("merge", mode="vectors") for table in tables]
    with working(quick.url, 3, {"merge": merge}):
        wait_for(lambda: all_over(quick, jobs), "the end of all jobs")
    for table, *signatures in zip(tables, first, jobs, strict=True):
        job = signatures[-1]
        assert quick.get(f"jobs/{job}")["status"] == "succeeded", quick.get(f"jobs/{job}")
        signed = f"SELECT summary['firn.job-id'] FROM {table.name}.base.snapshots ORDER BY committed_at"
        assert [row[0] for row in quick.spark.sql(signed).collect()] == signatures
        assert table.rows(".base") == [(1, "a"), (2, "B"), (3, "c")]


@pytest.mark.spark
def test_canceling_one_job_touches_none_beside_it(quick: RunningServer) -> None:
    victim, neighbour = keyed(quick), keyed(quick)
    started, go_on = threading.Barrier(3, timeout=60), threading.Event()
    ended: dict[str, BaseException | None] = {}

    def busy(work: JobRun) -> Result:
        spark = work.session.spark
        name = work.lease.table
        started.wait()
        try:
            while not go_on.is_set() or name == victim.short:
                spark.range(0, 10**10 if name == victim.short else 10**6, 1, 1).selectExpr("sum(hash(id))").collect()
            ended[name] = None
        except Exception as error:
            ended[name] = error
            raise
        return Result(outcome=Outcome.NOTHING)

    canceled, kept = victim.ask("merge"), neighbour.ask("merge")
    with working(quick.url, 2, {"merge": busy}) as worker:
        started.wait()
        context = worker.spark.session.sparkContext
        wait_for(lambda: bool(read_progress(context, canceled)), "the victim's progress")
        quick.post(f"jobs/{canceled}/cancel")
        wait_for(lambda: victim.short in ended, "the victim's end")
        assert ended[victim.short] is not None
        assert neighbour.short not in ended
        assert last_job_failed(context, canceled)
        assert not last_job_failed(context, kept)
        go_on.set()
        wait_for(lambda: all_over(quick, [kept]), "the neighbour's end")
    assert ended[neighbour.short] is None
    assert quick.get(f"jobs/{kept}")["status"] == "succeeded"
    assert quick.get(f"jobs/{canceled}")["status"] == "canceled"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_thirty_small_jobs_leave_no_thread_and_no_catalog_behind(quick: RunningServer) -> None:
    tables = [keyed(quick) for _ in range(6)]
    opened, closed = [], []

    def counted(work: JobRun) -> Result:
        catalog = work.session.java.sessionState().catalogManager().catalog("firn_job").icebergCatalog()
        opened.append(catalog)
        return JOBS["clean"].run(work)

    def round_of_jobs() -> None:
        jobs = [table.ask("clean") for table in tables]
        wait_for(lambda: all_over(quick, jobs), "the end of a round")
        assert {quick.get(f"jobs/{job}")["status"] for job in jobs} == {"succeeded"}

    def java_threads() -> int:
        jvm: Any = shared_spark()._jvm
        return int(jvm.java.lang.Thread.activeCount())

    with working(quick.url, 4, {"clean": counted}):
        round_of_jobs()
        before, python_before = java_threads(), threading.active_count()
        for _ in range(5):
            round_of_jobs()
        # Not closed, each of the thirty would keep a thread that refreshes its session.
        wait_for(lambda: java_threads() <= before + 6, f"no more threads than {before}, not {java_threads()}")
        assert threading.active_count() <= python_before + 2
    for catalog in opened:
        try:
            catalog.listNamespaces()
        except Exception:  # noqa: BLE001 -- whatever a closed client says
            closed.append(catalog)
    assert len(closed) == len(opened) >= 36


@pytest.mark.spark
@pytest.mark.parametrize("off", [-86_400, 86_400])
def test_an_optimizer_whose_clock_is_a_day_off_keeps_its_lease(
    quick: RunningServer, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    """Leases are the database's time: what an optimizer believes about the hour decides nothing."""
    job = keyed(quick).ask("merge")
    clock = time.time

    def slow(work: JobRun) -> Result:
        time.sleep(float(QUICK["FIRN_LEASE__SECONDS"]) + 2)  # longer than a lease that is not renewed
        return JOBS["merge"].run(work)

    monkeypatch.setattr(time, "time", lambda: clock() + off)
    with working(quick.url, 1, {"merge": slow}):
        wait_for(lambda: all_over(quick, [job]), "the job's end")
    ended = quick.get(f"jobs/{job}")
    assert (ended["status"], ended["attempt"]) == ("succeeded", 1), ended
