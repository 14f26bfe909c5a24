"""The loop of queries, with an engine and a server that this module plays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import cast

import httpx
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from firn.errors import Refused
from firn.protocol.query_leases import QueryLease, QueryReport, QueryReportOutcome
from optimizer.client import connect
from optimizer.registration import Registration
from optimizer.spark import SparkProcess
from optimizer.spark_queries.api import QueryApi
from optimizer.spark_queries.keeper import QueryKeeper
from optimizer.spark_queries.worker import QueryWorker
from tests.waiting import LONG

LEASE = QueryLease(
    lease="q.t",
    lease_seconds=30,
    heartbeat_seconds=0.05,
    query_id="00000000-0000-4000-8000-000000000000",
    statement="SELECT 1",
    explain=False,
    tables=[],
    rows=10,
    result_bytes=1_000,
    delegation=[],
)


class Server:
    """Gives one lease, and notes what it is told."""

    def __init__(self) -> None:
        self.reports: list[dict[str, object]] = []
        self.is_canceled = False
        self.beaten: Callable[[], None] = lambda: None

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/api/v1/query-leases":
            return httpx.Response(200, json=LEASE.model_dump(mode="json"))
        if self.is_canceled:
            return httpx.Response(403, json={"error": {"code": "lease_lost", "message": "the lease has ended"}})
        if request.method == "PUT":
            self.beaten()
        if path.endswith("/report"):
            self.reports.append(json.loads(request.content))
        return httpx.Response(204)


class LiveSpark(SparkProcess):
    def __init__(self) -> None:
        super().__init__(lambda: pytest.fail("nothing starts Spark"))


class EndedSpark(SparkProcess):
    """Java has ended with a status."""

    def __init__(self, status: int | None) -> None:
        super().__init__(lambda: pytest.fail("nothing starts Spark"))
        self._session, self.status = cast("SparkSession", object()), status

    def has_stopped(self) -> bool:
        raise Py4JError("Java is gone")

    def wait_for_java(self) -> int | None:
        return self.status


def work(
    server: Server,
    answer: Callable[[QueryKeeper, threading.Event], QueryReport],
    spark: SparkProcess | None = None,
) -> list[dict[str, object]]:
    api = connect("http://127.0.0.1:1", transport=httpx.MockTransport(server.answer))
    registration, stopping = Registration(api, {}), threading.Event()
    registration._id = "o"
    worker = QueryWorker(
        QueryApi(api),
        spark or LiveSpark(),
        registration,
        stopping,
        1,
        answer=lambda _api, _spark, _lease, keeper: answer(keeper, stopping),
    )
    assert worker.work_once(wait_seconds=0)
    return server.reports


def test_the_end_of_a_query_is_reported() -> None:
    [report] = work(Server(), lambda _keeper, _stopping: QueryReport(outcome=QueryReportOutcome.DONE, rows=3))
    assert (report["outcome"], report["rows"]) == ("done", 3)


def test_a_refusal_is_told_with_its_hint_and_without_paths() -> None:
    def refuse(_keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        raise Refused("no file file:/warehouse/secret/a.parquet", hint="ask")

    [report] = work(Server(), refuse)
    assert (report["outcome"], report["message"], report["hint"]) == ("failed", "no file a file", "ask")


def test_an_unexpected_error_shows_nothing_of_itself() -> None:
    def fail(_keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        raise ValueError("secret")

    [report] = work(Server(), fail)
    assert "secret" not in str(report["message"])


def test_a_canceled_query_is_interrupted_and_not_reported() -> None:
    server, interrupted = Server(), threading.Event()

    def run(keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        keeper.interrupt = interrupted.set
        server.is_canceled = True
        assert interrupted.wait(LONG)
        raise RuntimeError("Spark's job was canceled")

    assert work(server, run) == []


def test_an_optimizer_that_stops_hands_its_query_back() -> None:
    def run(keeper: QueryKeeper, stopping: threading.Event) -> QueryReport:
        interrupted = threading.Event()
        keeper.interrupt = interrupted.set
        stopping.set()
        assert interrupted.wait(LONG)
        raise RuntimeError("Spark's job was canceled")

    [report] = work(Server(), run)
    assert report["outcome"] == "handed-back"


def end_with_java(_keeper: QueryKeeper, stopping: threading.Event) -> QueryReport:
    stopping.set()  # as the loop of jobs does, which hears the same
    raise Py4JError("Java is gone")


@pytest.mark.parametrize(("status", "words"), [(52, "out of memory"), (-9, "Spark ended"), (None, "Spark ended")])
def test_a_query_with_which_java_ended_fails_and_is_not_handed_to_the_next_optimizer(
    status: int | None, words: str
) -> None:
    [report] = work(Server(), end_with_java, EndedSpark(status))
    assert report["outcome"] == "failed"
    assert words in str(report["message"])
    assert "Read fewer rows" in str(report["hint"])


@pytest.mark.parametrize("status", [-15, 143, -2, 130])
def test_a_query_is_handed_back_when_somebody_ends_the_optimizer_with_its_java(status: int) -> None:
    [report] = work(Server(), end_with_java, EndedSpark(status))
    assert report["outcome"] == "handed-back"


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.",
        "ExecutorLostFailure: Command exited with code 52",
        "Container killed by YARN for exceeding physical memory limits.",
    ],
)
def test_a_lack_of_memory_that_java_survives_is_said_in_plain_words(text: str) -> None:
    def fail(_keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        raise PySparkException(text)

    [report] = work(Server(), fail)
    assert report["message"] == "the query needs more memory than the optimizer has"


def test_a_result_that_is_too_large_says_so() -> None:
    def fail(_keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        size = "Total size of serialized results of 1 tasks (281 MiB) is bigger than spark.driver.maxResultSize (1 b)"
        raise PySparkException(f"Job aborted due to stage failure: {size}")

    [report] = work(Server(), fail)
    assert report["message"] == "the result does not fit into the memory of the optimizer"


def test_heartbeats_go_on_while_java_does_not_answer() -> None:
    server, beats, blocked = Server(), threading.Semaphore(0), threading.Event()

    def run(keeper: QueryKeeper, _stopping: threading.Event) -> QueryReport:
        keeper.progress = lambda: blocked.wait() and None
        for _ in range(2):
            assert beats.acquire(timeout=240)
        blocked.set()
        return QueryReport(outcome=QueryReportOutcome.DONE)

    server.beaten = beats.release
    [report] = work(server, run)
    assert report["outcome"] == "done"
