"""Work done ahead of whoever takes the results: in order, and never far ahead."""

from __future__ import annotations

import threading

import pytest

from server.prefetch import run_in_threads


def test_results_come_in_the_order_of_the_items() -> None:
    first_may_end = threading.Event()

    def work(some: list[int]) -> list[int]:
        if some[0] == 0:
            first_may_end.wait(60)
        first_may_end.set()
        return [number * 10 for number in some]

    assert list(run_in_threads(work, range(7), threads=3, at_once=2, name="t")) == [0, 10, 20, 30, 40, 50, 60]


def test_nobody_works_further_ahead_than_keeps_the_threads_busy() -> None:
    items = iter(range(1000))
    results = run_in_threads(lambda some: some, items, threads=2, at_once=5, name="t")
    for _ in range(50):
        next(results)
    assert next(items) <= 50 + 2 * 2 * 5
    results.close()  # type: ignore[attr-defined]


def test_the_first_error_ends_it_after_the_results_before_it() -> None:
    def work(some: list[int]) -> list[int]:
        if 3 in some:
            raise ValueError(some)
        return some

    results = run_in_threads(work, range(100), threads=2, at_once=1, name="t")
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="3"):
        next(results)
