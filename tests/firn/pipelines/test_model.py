"""Incremental equals full, in few rounds; `tests/integration/pipelines` runs thousands."""

from __future__ import annotations

import random

import pytest

from firn.pipelines import incremental
from tests.pipeline_grammar import Grammar
from tests.pipeline_model import Model
from tests.pipeline_shapes import SCHEMA, SHAPES

ROUNDS = 3
QUERIES = 12


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_stays_equal_to_full(name: str) -> None:
    Model(SHAPES[name]).run(ROUNDS)


def test_random_queries_stay_equal_to_full() -> None:
    grammar = Grammar(random.Random(1), depth=1)
    kept = 0
    while kept < QUERIES:
        sql = grammar.query()
        if incremental(sql, SCHEMA).is_incremental:
            Model(sql).run(2)
            kept += 1


@pytest.mark.parametrize(
    ("name", "key"),
    [("inner join", ["k"]), ("left join", ["id"]), ("group", ["g"]), ("full join", ["k"]), ("union all", ["x"])],
)
def test_a_scope_of_the_key_alone_stays_equal_to_full(name: str, key: list[str]) -> None:
    model = Model(SHAPES[name], key=key)
    assert model.plan.scope == tuple(key)
    model.run(4)
