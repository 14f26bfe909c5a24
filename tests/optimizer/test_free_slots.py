"""The slots of an optimizer, without Spark."""

from __future__ import annotations

import itertools
import threading
import time

import httpx
import pytest

from firn.protocol.leases import Outcome, Result
from optimizer.client import ServerApi, connect
from optimizer.job import OptimizerJob
from optimizer.lease_loop import IDLE_SECONDS
from optimizer.read_checks import reads_nothing
from optimizer.slots import Slots
from optimizer.spark import SparkProcess
from optimizer.worker import Worker
from tests.answer_documents import REGISTERED
from tests.waiting import LONG


def test_an_optimizer_polls_once_at_a_time_however_many_slots_are_free() -> None:
    """A long poll for each free slot would be a server's load multiplied."""
    asking = threading.Semaphore(1)
    overlapped: list[bool] = []
    moments: list[float] = []
    polled_enough = threading.Event()

    def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/optimizers"):
            return httpx.Response(201, json=REGISTERED)
        if request.method == "DELETE":
            return httpx.Response(204)
        overlapped.append(not asking.acquire(blocking=False))
        moments.append(time.monotonic())
        time.sleep(0.02)
        asking.release()
        if len(overlapped) >= 10:
            polled_enough.set()
        return httpx.Response(204)

    worker = a_lone_worker(connect("http://server", transport=httpx.MockTransport(answers)), slots=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert polled_enough.wait(LONG)
    worker.stopping.set()
    thread.join()
    assert not any(overlapped)
    pauses = [after - before for before, after in itertools.pairwise(moments)]
    assert min(pauses) >= IDLE_SECONDS  # this server keeps nobody waiting, and must not be asked without a break


def a_lone_worker(api: ServerApi, *, slots: int) -> Worker:
    """Without a Spark: for what happens around jobs."""
    none = SparkProcess(lambda: pytest.fail("no job here needs Spark"))
    idle = OptimizerJob(lambda _: Result(outcome=Outcome.NOTHING), reads_nothing)
    return Worker(api, none, {"merge": idle}, {}, threading.Event(), slots)


def test_an_optimizer_that_is_told_to_leave_does_so_once() -> None:
    requests: list[str] = []

    def answers(request: httpx.Request) -> httpx.Response:
        requests.append(f"{request.method} {request.url.path}")
        if request.url.path.endswith("/leases"):
            return httpx.Response(409, json={"error": {"message": "told to stop"}})
        return httpx.Response(201 if request.method == "POST" else 204, json=REGISTERED)

    a_lone_worker(connect("http://server", transport=httpx.MockTransport(answers)), slots=2).run()
    assert requests == ["POST /api/v1/optimizers", "POST /api/v1/leases", "DELETE /api/v1/optimizers/o"]


def test_no_more_than_the_slots_run_and_the_end_waits_for_all() -> None:
    release, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(LONG)
        with lock:
            running -= 1

    with Slots(2) as slots:
        for _ in range(2):
            assert slots.take(LONG)
            slots.give(work)
        assert not slots.take(0.05)
        release.set()
        assert slots.take(LONG)
        slots.release()
    assert (running, most) == (0, 2)


def test_a_slot_is_free_again_after_its_work_has_broken() -> None:
    def broken() -> None:
        raise RuntimeError("the loop's own error")

    with Slots(1) as slots:
        for _ in range(2):
            assert slots.take(LONG)
            slots.give(broken)
        assert slots.take(LONG)
