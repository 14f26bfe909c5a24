from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from server.service.turns import Turns


def waiting(turns: Turns, thing: str) -> int:
    return len(turns._queues.get(thing, ()))


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.001)


def test_turns_come_in_the_order_of_arrival() -> None:
    turns, came = Turns(), []

    def take(number: int) -> None:
        with turns.of(["t"]):
            came.append(number)

    with ThreadPoolExecutor(5) as pool, turns.of(["t"]):
        for number in range(5):
            pool.submit(take, number)
            until(lambda: waiting(turns, "t") > number)  # noqa: B023 (asked before the loop goes on)
        assert came == []
    assert came == [0, 1, 2, 3, 4]


def test_one_thing_does_not_wait_for_another() -> None:
    turns = Turns()
    with turns.of(["a"]), ThreadPoolExecutor(1) as pool:

        def take() -> bool:
            with turns.of(["b"]):
                return True

        assert pool.submit(take).result(timeout=10)


def test_two_who_want_the_same_two_do_not_wait_for_ever() -> None:
    turns, done = Turns(), []

    def take(things: list[str]) -> None:
        for _ in range(200):
            with turns.of(things):
                done.append(1)

    threads = [threading.Thread(target=take, args=(order,)) for order in (["a", "b"], ["b", "a"], ["a", "b", "c"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(done) == 600


def test_nothing_is_kept_when_nobody_waits_and_a_failure_ends_the_turn() -> None:
    turns = Turns()

    def fail() -> None:
        with turns.of(["a", "b", "a"]):
            raise KeyError

    with ThreadPoolExecutor(4) as pool:
        failures = [pool.submit(fail).exception() for _ in range(20)]
    assert all(isinstance(one, KeyError) for one in failures)
    assert turns._queues == {}
