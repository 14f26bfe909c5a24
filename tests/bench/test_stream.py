"""Records of the stream benchmark, and how CPU seconds of a tree of processes are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from bench.measure import TreeStopwatch
from bench.stream.records import DAYS, Totals, Upserts

BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_records_are_the_same_for_a_seed_and_add_up_to_the_newest_of_each_key() -> None:
    upserts = Upserts(keys=50)
    drawn = list(upserts.draw(1_200))
    expected = {}
    for key, value in drawn:
        row = json.loads(value)
        assert row["id"] == key
        expected[key] = (row["qty"], row["amount"])
    assert [key for key, _ in Upserts(keys=50).draw(1_200)] == [key for key, _ in drawn]
    sums = (sum(row[0] for row in expected.values()), sum(row[1] for row in expected.values()))
    assert upserts.totals() == Totals(len(expected), *sums)


def test_nine_of_ten_unique_keys_are_of_the_first_of_all_days() -> None:
    days = [json.loads(value)["day"] for _, value in Upserts(keys=600, unique=True).draw(600)]
    assert (days.count("2026-01-01"), len({*days})) == (540, DAYS)


def test_a_tree_of_processes_counts_children_that_have_ended() -> None:
    clock = TreeStopwatch([os.getpid()])
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    cost, _ = clock.cost(lambda: subprocess.run([sys.executable, "-c", nested], check=True))
    assert cost.cpu >= 0.3
