"""The Spark of an optimizer, which starts with the first job that needs it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pyspark import SparkContext

from firn.protocol.leases import Lease, Outcome, Result
from optimizer.client import connect
from optimizer.errors import SparkStopped
from optimizer.job import OptimizerJob
from optimizer.memory import Memory
from optimizer.read_checks import reads_nothing
from optimizer.spark import SparkProcess, may_wait, wait_for_java
from optimizer.worker import Worker
from tests.optimizer.leases import a_lease


class Server:
    """Gives one lease, and keeps what is reported."""

    def __init__(self, lease: Lease) -> None:
        self.leases = [lease]
        self.reports: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/leases"):
            return httpx.Response(200, text=self.leases.pop().model_dump_json()) if self.leases else httpx.Response(204)
        if request.url.path.endswith("/report"):
            self.reports.append(request.read().decode())
        return httpx.Response(200, json={})


def a_worker(server: Server, spark: SparkProcess, job: OptimizerJob) -> Worker:
    api = connect("http://server", transport=httpx.MockTransport(server))
    return Worker(api, spark, {"merge": job}, {}, threading.Event())


def fails() -> Any:
    raise RuntimeError("no Java here")


def test_a_job_that_needs_no_spark_starts_none() -> None:
    server, spark = Server(a_lease()), SparkProcess(fails)
    light = OptimizerJob(lambda _: fails(), reads_nothing, lambda _: Result(outcome=Outcome.NOTHING))
    assert a_worker(server, spark, light).work_once("o", wait_seconds=0)
    assert '"nothing"' in server.reports[0]
    assert (spark.running, spark.has_stopped()) == (None, False)


def test_a_job_whose_spark_does_not_start_is_left_to_its_lease_and_the_optimizer_ends() -> None:
    server, spark = Server(a_lease()), SparkProcess(fails)
    heavy = OptimizerJob(lambda _: fails(), reads_nothing, lambda _: None)
    worker = a_worker(server, spark, heavy)
    assert worker.work_once("o", wait_seconds=0)
    assert server.reports == []
    with pytest.raises(SparkStopped):
        worker.work_once("o", wait_seconds=0)


class EndedSpark(SparkProcess):
    """Its Java has ended: no call gets an answer."""

    def __init__(self) -> None:
        super().__init__(fails)
        self._failed = True


@pytest.mark.parametrize(
    ("status", "slots", "attempt", "is_told"),
    [(52, 1, 1, True), (52, 4, 1, False), (52, 4, 2, True), (137, 1, 5, False), (1, 1, 5, False)],
)
def test_a_job_that_has_taken_all_memory_fails_with_that_reason(
    monkeypatch: pytest.MonkeyPatch, *, status: int, slots: int, attempt: int, is_told: bool
) -> None:
    """Left to its lease, it would end one optimizer after the other, and nobody would learn why."""
    server, gone = Server(a_lease(kind="merge", attempt=attempt)), EndedSpark()
    with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"]) as java:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
        heavy = OptimizerJob(lambda _: fails(), reads_nothing, lambda _: fails())
        replace(a_worker(server, gone, heavy), slots=slots)._work(server.leases.pop())
    reports = [json.loads(report) for report in server.reports]
    assert [report["outcome"] for report in reports] == (["refused"] if is_told else [])
    assert all("Spark has run out of memory" in report["error"] for report in reports)


def test_nobody_knows_why_a_java_has_ended_that_runs_or_that_another_process_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optimizer.spark.JAVA_ENDS_SECONDS", 0.01)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as java:
        for gateway in (None, SimpleNamespace(proc=None), SimpleNamespace(proc=java)):
            monkeypatch.setattr(SparkContext, "_gateway", gateway)
            assert wait_for_java() is None
        java.kill()


def test_without_spark_the_memory_is_this_process_alone() -> None:
    assert Memory(SparkProcess(fails))().keys() == {"rss"}


def test_only_a_spark_on_this_machine_may_wait_for_its_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert [may_wait(master) for master in (None, "local[2]", "yarn", "k8s://x")] == [True, True, False, False]
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not may_wait(None)
