"""How a drain's batch goes to tasks: when the topic's own partitions are enough, and which records are a sample."""

from __future__ import annotations

import pytest

from firn.logs import LogBatch
from firn.spark.log_order import choose_sample, is_balanced


def a_batch(*ranges: tuple[int, int]) -> LogBatch:
    return LogBatch(
        topic="t",
        start={number: start for number, (start, _) in enumerate(ranges)},
        end={number: end for number, (_, end) in enumerate(ranges)},
    )


@pytest.mark.parametrize(
    ("ranges", "tasks", "balanced"),
    [
        ([(0, 100)], 1, True),
        ([(0, 100)], 2, True),
        ([(0, 100)], 3, False),
        ([(5, 105), (0, 100), (7, 7)], 4, True),
        ([(0, 900), (0, 100), (0, 100)], 3, False),
        ([(3, 3)], 1, True),
    ],
)
def test_tasks_are_balanced_while_none_gets_over_twice_its_share(
    ranges: list[tuple[int, int]], tasks: int, *, balanced: bool
) -> None:
    assert is_balanced(a_batch(*ranges), tasks) is balanced


def test_a_sample_is_from_the_beginning_the_middle_and_the_end() -> None:
    parts = choose_sample(a_batch((100, 1_100), (0, 4)), most=60)
    assert [(part.start, part.end) for part in parts] == [
        ({0: 100, 1: 0}, {0: 110, 1: 4}),
        ({0: 595, 1: 0}, {0: 605, 1: 4}),
        ({0: 1_090, 1: 0}, {0: 1_100, 1: 4}),
    ]
    assert {part.topic for part in parts} == {"t"}
