"""Incremental equals full in thousands of rounds: all named shapes, and random queries, in several processes."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context

import pytest

from firn.pipelines import incremental
from tests.pipeline_grammar import Grammar
from tests.pipeline_model import Model
from tests.pipeline_shapes import SCHEMA, SHAPES

SEED = int(os.environ.get("HISTORY_SEED", "0")) or 7
SOAK = float(os.environ.get("SOAK_SECONDS", "0"))
QUERIES, ROUNDS_OF_QUERY = 220, 11
ROUNDS_OF_SHAPE = 30

pytestmark = pytest.mark.model


def run_history(history: tuple[str, int, int]) -> int:
    """The rounds of one query."""
    sql, seed, rounds = history
    return len(Model(sql, seed).run(rounds))


def random_histories(seed: int) -> list[tuple[str, int, int]]:
    """Incremental queries of a grammar, every third of them with derived tables in derived tables."""
    chosen = random.Random(seed)
    grammars = cycle([Grammar(chosen, depth=depth) for depth in (1, 1, 2)])
    endless = (grammar.query() for grammar in grammars)
    kept = (sql for sql in endless if incremental(sql, SCHEMA).is_incremental)
    return [(sql, seed, ROUNDS_OF_QUERY) for sql in islice(kept, QUERIES)]


@pytest.mark.timeout(0)
def test_five_thousand_rounds_stay_equal_to_full() -> None:
    seed, began = SEED, time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        while True:
            histories = [(sql, seed, ROUNDS_OF_SHAPE) for sql in SHAPES.values()] + random_histories(seed)
            assert sum(pool.map(run_history, histories, chunksize=4)) >= 5_000
            seed += 1
            if time.monotonic() - began >= SOAK:
                return
