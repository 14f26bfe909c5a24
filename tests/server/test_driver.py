"""The clock of the background tasks ends, whatever its tasks do at that moment."""

from __future__ import annotations

import threading

from server.background.driver import Driver, TaskDef

LONG = 30.0
"""Seconds after which a wait has failed."""


def make(name: str, activate: object) -> TaskDef:
    return TaskDef(name=name, does="a test", every_seconds=3600, activate=activate)  # type: ignore[arg-type]


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
