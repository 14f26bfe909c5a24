"""Streams in an optimizer, with a server in memory and without Spark: ends, stops, lost leases, heartbeats."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from py4j.protocol import Py4JError

from firn.drains.errors import DrainOvertaken, DrainStopped
from firn.errors import Refused, Unavailable
from firn.logs import LogBatch, plan_batch
from firn.protocol.streams import StreamHeartbeat, StreamKind, StreamLease, StreamOutcome, StreamReport
from optimizer.client import ServerApi
from optimizer.drain_stream import DrainStream
from optimizer.errors import LeaseLost
from optimizer.registration import Registration
from optimizer.spark import SparkProcess
from optimizer.stream_keeper import StreamEnded, StreamKeeper
from optimizer.stream_worker import StreamWorker
from tests.waiting import LONG, wait_for


def a_lease(table: str = "db.orders", **more: Any) -> StreamLease:
    namespace, name = table.split(".")
    values = {
        "lease": f"{table}.1.token",
        "lease_seconds": 60,
        "heartbeat_seconds": 0.05,
        "stream_id": table,
        "attempt": 1,
        "kind": StreamKind.DRAIN,
        "catalog": "lake",
        "table": table,
        "namespace": [namespace],
        "name": name,
        "writer": "log",
        "writer_epoch": 3,
        "position": None,
        "password": "geheim",
        "delegation": [],
    }
    return StreamLease(**{**values, **more})


@dataclass
class Server:
    """See optimizer.client.ServerApi. It gives the leases once, and answers heartbeats with `refusal` if it has one."""

    leases: deque[StreamLease]
    refusal: Exception | None = None
    beats: list[StreamHeartbeat] = field(default_factory=list)
    reports: dict[str, StreamReport] = field(default_factory=dict)

    def register(self, **_about: Any) -> Any:
        return type("Registered", (), {"id": "optimizer"})

    def unregister(self, _optimizer_id: str) -> None: ...

    def take_stream(self, _optimizer_id: str, *, wait_seconds: float) -> StreamLease | None:
        return self.leases.popleft() if self.leases else None

    def beat_stream(self, _lease: StreamLease, heartbeat: StreamHeartbeat) -> None:
        self.beats.append(heartbeat)
        if self.refusal is not None:
            raise self.refusal

    def report_stream(self, lease: StreamLease, report: StreamReport) -> None:
        self.reports[lease.table] = report


class Spark:
    """A Spark that has not stopped."""

    def is_lost(self) -> bool:
        return False


def a_worker(server: Server, run: Callable[[StreamLease, StreamKeeper], None], count: int = 1) -> StreamWorker:
    api, spark = cast("ServerApi", server), cast("SparkProcess", Spark())
    return StreamWorker(
        api,
        spark,
        Registration(api, {}),
        threading.Event(),
        count,
        run_stream=lambda _api, _spark, lease, keeper: run(lease, keeper),
    )


def raising(error: Exception) -> Callable[[StreamLease, StreamKeeper], None]:
    def run(_lease: StreamLease, _keeper: StreamKeeper) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "outcome", "reason", "remedy"),
    [
        (
            DrainStopped("3 records are gone", hint="firn log skip"),
            StreamOutcome.STOPPED,
            "3 records are gone",
            "firn log skip; then `firn stream restart db.orders`",
        ),
        (
            Refused("wrong password"),
            StreamOutcome.STOPPED,
            "wrong password",
            "remove the cause; then `firn stream restart db.orders`",
        ),
        (Unavailable("Kafka is away", hint="wait"), StreamOutcome.FAILED, "Kafka is away", "wait"),
        (DrainOvertaken("another drain has started"), StreamOutcome.FAILED, "another drain has started", None),
        (ValueError("geheim is wrong"), StreamOutcome.FAILED, "*** is wrong", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_ends_the_attempt_with_reason_and_remedy(
    error: Exception, outcome: StreamOutcome, reason: str, remedy: str | None
) -> None:
    server = Server(deque([a_lease()]))
    assert a_worker(server, raising(error)).work_once()
    report = server.reports["db.orders"]
    assert (report.outcome, report.reason, report.remedy) == (outcome, reason, remedy)


def test_a_stream_that_fails_ends_no_other_and_a_stop_hands_the_rest_back() -> None:
    server = Server(deque([a_lease(), a_lease("db.others")]))

    def run(lease: StreamLease, keeper: StreamKeeper) -> None:
        if lease.table == "db.orders":
            raise ValueError("broken")
        while True:
            keeper.wait_until(time.monotonic() + 1)

    worker = a_worker(server, run, count=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_for(lambda: "db.orders" in server.reports and server.beats)
    assert "db.others" not in server.reports
    worker.stopping.set()
    thread.join(LONG)
    assert {table: report.outcome for table, report in server.reports.items()} == {
        "db.orders": StreamOutcome.FAILED,
        "db.others": StreamOutcome.HANDED_BACK,
    }


def test_a_lost_lease_ends_the_attempt_and_nothing_is_reported() -> None:
    server, interrupted = Server(deque([a_lease()]), LeaseLost("the stream is paused")), list[bool]()

    def interrupt() -> None:
        interrupted.append(True)
        raise Py4JError("Spark has stopped")  # the keeper goes on

    def run(_lease: StreamLease, keeper: StreamKeeper) -> None:
        keeper.interrupt = interrupt
        wait_for(lambda: len(interrupted) > 1)
        keeper.check()

    assert a_worker(server, run).work_once()
    assert server.reports == {}


def test_a_lease_without_heartbeats_that_get_through_counts_as_lost() -> None:
    lease = a_lease(lease_seconds=0.2)
    server = Server(deque([lease]), httpx.ConnectError("no route"))
    with StreamKeeper(cast("ServerApi", server), lease, stopping=threading.Event()) as keeper:
        wait_for(lambda: keeper.is_lost)
        with pytest.raises(StreamEnded, match="no heartbeat got through"):
            keeper.check()


def test_lines_reach_the_server_without_the_password() -> None:
    server = Server(deque())
    with StreamKeeper(cast("ServerApi", server), a_lease(), stopping=threading.Event()) as keeper:
        keeper.say("signed in with geheim")
        wait_for(lambda: any(beat.log for beat in server.beats))
    assert [line for beat in server.beats for line in beat.log] == ["signed in with ***"]
    assert "geheim" not in repr(a_lease())


@dataclass
class Drain:
    """See firn.drains.drain.Drain, over a topic of one partition."""

    ends: deque[int]
    at: int = 0
    commits: list[tuple[float, int, int]] = field(default_factory=list)
    added_columns: list[str] = field(default_factory=list)

    def look(self) -> Any:
        end = self.ends.popleft() if self.ends else self.at
        values = {"topic": "t", "start": {0: self.at}, "end": {0: end}, "lag": end - self.at, "max_batch_rows": 10}
        return type("Log", (), {**values, "starts_latest": False, "position": "t:0:0", "max_lag_seconds": 1.0})

    def plan(self, log: Any) -> LogBatch | None:
        return plan_batch(log)

    def commit(self, _log: Any, batch: LogBatch) -> LogBatch:
        self.commits.append((time.monotonic(), batch.start[0], batch.end[0]))
        self.at = batch.end[0]
        self.added_columns = ["more"]
        return batch


def test_a_drain_commits_every_half_of_its_lag_and_at_once_while_more_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    drain = Drain(deque([3, 25, 25, 25, 25, 30]))

    @contextmanager
    def open_drain(_stream: DrainStream, _keeper: StreamKeeper) -> Iterator[Drain]:
        yield drain

    monkeypatch.setattr(DrainStream, "_open", open_drain)
    server, stopping = Server(deque()), threading.Event()
    stream = DrainStream(cast("ServerApi", server), cast("Any", None), a_lease())
    with StreamKeeper(cast("ServerApi", server), a_lease(), stopping=stopping) as keeper:

        def run() -> None:
            with pytest.raises(StreamEnded):
                stream.run(keeper)

        thread = threading.Thread(target=run)
        thread.start()
        wait_for(lambda: len(drain.commits) == 5 and any(beat.lag_rows == 0 for beat in server.beats))
        stopping.set()
        thread.join(LONG)
    assert [(start, end) for _, start, end in drain.commits] == [(0, 3), (3, 13), (13, 23), (23, 25), (25, 30)]
    lines = [line for beat in server.beats for line in beat.log]
    assert sum("added columns more" in line for line in lines) == 1, "the first batch has added it"
    times = [at for at, _, _ in drain.commits]
    assert times[1] - times[0] >= 0.45
    assert times[3] - times[1] < 0.45
    assert server.beats[-1].has_progressed
    assert (server.beats[-1].current_age_seconds or 0) < 30
    assert (server.beats[-1].rows_per_second or 0) > 0
