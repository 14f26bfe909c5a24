"""Background tasks run at intervals of a clock that never goes back, and end with the server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from queue import Queue

import pytest

from server.background import driver as driver_module
from server.background.driver import Driver, TaskDef
from tests.waiting import LONG


def make(name: str, activate: Callable[[], object], every_seconds: float = 3600) -> TaskDef:
    return TaskDef(name=name, does="a test", every_seconds=every_seconds, activate=activate)


@dataclass
class Stage:
    """A driver with the task `tick`, due every 100 s of a clock that only the test moves, and the task `other`."""

    seconds: float = 0.0
    ticks: Queue[float] = field(default_factory=Queue)
    others: Queue[float] = field(default_factory=Queue)
    during_tick: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        tasks = [make("tick", self.tick, 100), make("other", lambda: self.others.put(self.seconds))]
        self.driver = Driver(tasks, lambda: True, lambda: self.seconds)

    def tick(self) -> None:
        self.ticks.put(self.seconds)
        self.during_tick()

    def wait_for_end(self, name: str) -> None:
        """The driver has seen the end of a run, and reckons the next one from the time at that moment."""
        with self.driver._changed:
            assert self.driver._changed.wait_for(lambda: name not in self.driver._running, LONG)

    def pass_to(self, seconds: float) -> None:
        """It is this time now, and the driver has noticed: it has begun what is due."""
        self.seconds = seconds
        self.driver.poke("other")
        while self.others.get(timeout=LONG) != seconds:
            pass
        self.wait_for_end("other")


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.driver.stop()


def test_a_task_runs_at_once_and_then_after_each_interval(stage: Stage) -> None:
    stage.driver.start()
    assert stage.ticks.get(timeout=LONG) == 0
    stage.wait_for_end("tick")
    stage.pass_to(99)
    assert stage.ticks.empty()
    stage.pass_to(100)
    assert stage.ticks.get(timeout=LONG) == 100
    stage.wait_for_end("tick")
    stage.pass_to(199)
    assert stage.ticks.empty()


def test_ticks_during_a_long_run_are_not_made_up_for(stage: Stage) -> None:
    entered, go = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        assert go.wait(LONG)

    stage.during_tick = work
    stage.driver.start()
    assert entered.wait(LONG)
    assert stage.ticks.get(timeout=LONG) == 0
    stage.pass_to(250)
    assert stage.ticks.empty()  # runs of one task never overlap
    go.set()
    stage.wait_for_end("tick")
    stage.pass_to(299)
    assert stage.ticks.empty()
    stage.pass_to(300)
    assert stage.ticks.get(timeout=LONG) == 300


def test_a_task_that_is_poked_while_it_runs_runs_again(stage: Stage) -> None:
    def poke_once() -> None:
        stage.during_tick = lambda: None
        stage.driver.poke("tick")

    stage.during_tick = poke_once
    stage.driver.start()
    assert [stage.ticks.get(timeout=LONG), stage.ticks.get(timeout=LONG)] == [0, 0]
    stage.wait_for_end("tick")
    stage.pass_to(99)
    assert stage.ticks.empty()


def test_the_time_of_day_may_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class GoesBack(datetime):
        steps = 0

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> GoesBack:
            cls.steps += 1
            return cls(2026, 11, 29, tzinfo=tz) - cls.steps * timedelta(minutes=10)

    monkeypatch.setattr(driver_module, "datetime", GoesBack)
    ticks = Queue[None]()
    driver = Driver([make("tick", lambda: ticks.put(None), every_seconds=0.001)], lambda: True)
    driver.start()
    for _ in range(5):
        ticks.get(timeout=LONG)
    driver.stop()
    assert driver.last["tick"].at < datetime(2026, 11, 29, tzinfo=driver.last["tick"].at.tzinfo)


def test_a_task_that_pokes_another_does_not_keep_the_server_from_stopping() -> None:
    entered, go, poked = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        assert go.wait(LONG)
        driver.poke("other")
        poked.set()

    driver = Driver([make("first", work), make("other", lambda: None)], lambda: True)
    driver.start()
    assert entered.wait(LONG)
    stopping = threading.Thread(target=driver.stop, daemon=True)
    stopping.start()
    stopping.join(0.2)  # it waits for the task
    assert stopping.is_alive()
    go.set()
    stopping.join(LONG)
    assert not stopping.is_alive()
    assert poked.is_set()
    assert driver.last["first"].error is None


def test_nothing_runs_after_the_end() -> None:
    ran = threading.Event()
    first = threading.Event()
    driver = Driver([make("first", first.set), make("other", ran.set)], lambda: True)
    driver.start()
    assert first.wait(LONG)
    assert ran.wait(LONG)
    driver.stop()
    ran.clear()
    driver.poke("other")
    assert not ran.wait(0.2)
