"""The graph of the tables of pipelines."""

from __future__ import annotations

import random

import pytest

from catalog.errors import PipelineCycle
from catalog.names import TableName
from catalog.pipelines.graph import check_no_cycle, sort_by_inputs


def table(name: object) -> TableName:
    return TableName(("mart",), str(name))


def edges(**inputs: str) -> dict[TableName, list[TableName]]:
    """`a="b c"`: a reads b and c."""
    return {table(name): [table(read) for read in reads.split()] for name, reads in inputs.items()}


def test_a_cycle_is_named_with_its_path() -> None:
    with pytest.raises(PipelineCycle, match=r"mart\.b reads mart\.c reads mart\.d reads mart\.b"):
        check_no_cycle(edges(a="b raw", b="c", c="d raw", d="b"))


def test_a_name_in_another_spelling_is_the_same_table() -> None:
    with pytest.raises(PipelineCycle):
        check_no_cycle(edges(a="B", b="A"))


def test_a_diamond_is_no_cycle() -> None:
    diamond = edges(top="left right", left="raw", right="raw left")
    check_no_cycle(diamond)
    assert sort_by_inputs(diamond) == [table("left"), table("right"), table("top")]


def test_a_chain_may_be_longer_than_the_stack_of_python() -> None:
    chain = {table(number): [table(number + 1)] for number in range(20_000)}
    check_no_cycle(chain)
    assert sort_by_inputs(chain)[-1] == table(0)
    with pytest.raises(PipelineCycle):
        check_no_cycle(chain | {table(20_000): [table(0)]})


def test_each_table_comes_after_its_inputs() -> None:
    dice = random.Random(7)
    for _ in range(200):
        names = [table(number) for number in range(12)]
        graph = {name: dice.sample(names[:number], dice.randint(0, number)) for number, name in enumerate(names)}
        shuffled = dict(dice.sample(sorted(graph.items(), key=str), len(graph)))
        check_no_cycle(shuffled)
        order = sort_by_inputs(shuffled)
        assert sorted(order, key=str) == sorted(names, key=str)
        assert all(order.index(read) < order.index(name) for name, reads in graph.items() for read in reads)
