"""How many of the new commits a bounded run takes: up to a time, at least the first one, none twice."""

from __future__ import annotations

import random

import pytest

from catalog.names import TableName
from catalog.pipelines.bounded import InputCommit, bound_commits

A, B = TableName(("db",), "a"), TableName(("db",), "b")


def commits(*times: int) -> list[InputCommit]:
    return [InputCommit(str(number), at) for number, at in enumerate(times, 1)]


@pytest.mark.parametrize(
    ("a", "b", "most", "newest", "left"),
    [
        ((10, 20, 30), (15, 40), 2, {A: "1", B: "1"}, 3),
        ((10, 20, 30), (15, 40), 3, {A: "2", B: "1"}, 2),
        ((10, 20, 30), (), 1, {A: "1", B: None}, 2),
        ((30, 40), (10, 20), 2, {A: None, B: "2"}, 2),
        ((10, 20), (10, 30), 1, {A: "1", B: "1"}, 2),  # commits of one time belong together
        (
            (99, 20, 100),
            (30,),
            2,
            {A: "2", B: "1"},
            1,
        ),  # the clock of a's first writer is wrong: a goes on nevertheless
    ],
)
def test_a_run_takes_the_commits_up_to_one_time(
    a: tuple[int, ...], b: tuple[int, ...], most: int, newest: dict[TableName, str | None], left: int
) -> None:
    bounded = bound_commits({A: commits(*a), B: commits(*b)}, most)
    assert bounded is not None
    assert (bounded.newest, bounded.left) == (newest, left)


def test_a_time_bounds_the_commits_as_well() -> None:
    inputs = {A: commits(1, 4, 9), B: commits(3)}
    for most, until, counts, left in ((None, 4, (2, 1), 1), (1, 4, (1, 0), 3), (9, 0, (0, 0), 4)):
        bounded = bound_commits(inputs, most, until)
        assert bounded is not None
        assert [bounded.newest[name] for name in (A, B)] == [
            of[count - 1].version if count else None for of, count in zip(inputs.values(), counts, strict=True)
        ]
        assert bounded.left == left
    assert bound_commits(inputs, None, 9) is None


def test_few_commits_are_all_taken() -> None:
    assert bound_commits({A: commits(1, 2), B: commits(3)}, 3) is None
    assert bound_commits({A: [], B: []}, 1) is None
    assert bound_commits({A: commits(5, 5, 5)}, 1) is None  # of one time


def test_each_run_takes_some_until_all_are_taken() -> None:
    chosen = random.Random(3)
    for _ in range(200):
        left = {name: commits(*(chosen.randrange(9) for _ in range(chosen.randrange(6)))) for name in (A, B)}
        for _ in range(12):
            bounded = bound_commits(left, 2)
            if bounded is None:
                break
            before = sum(map(len, left.values()))
            left = {
                name: [at for at in of if int(at.version) > int(bounded.newest[name] or 0)] for name, of in left.items()
            }
            assert sum(map(len, left.values())) == bounded.left < before
        else:
            raise AssertionError("the runs do not end")
