"""Records of the stream benchmark, and how it counts waits, tasks and CPU seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.measure import TreeStopwatch
from bench.stream.latency import Sightings, describe
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


def test_a_record_waits_for_the_first_read_that_has_it() -> None:
    sightings = Sightings()
    sightings.add(1_000, {0: 500, 1: 400})
    sightings.add(2_000, {0: 500, 1: 1_900})
    assert [sightings.wait_of(0, at) for at in (100, 500, 501)] == [900, 500, None]
    assert [sightings.wait_of(1, at) for at in (400, 401)] == [600, 1_599]
    assert sightings.wait_of(2, 0) is None
    with pytest.raises(AssertionError, match="are not any more"):
        sightings.add(3_000, {0: 499})


def test_percentiles_of_waits() -> None:
    assert describe([*range(0, 100_000, 1_000)]) == {"p50_s": 50.0, "p95_s": 95.0, "p99_s": 99.0}
    assert describe([7_000]) == {"p50_s": 7.0, "p95_s": 7.0, "p99_s": 7.0}


def test_a_tree_of_processes_counts_children_that_have_ended_and_leaves_some_out() -> None:
    clock = TreeStopwatch([os.getpid()])
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    cost, _ = clock.cost(lambda: subprocess.run([sys.executable, "-c", nested], check=True))
    assert cost.cpu >= 0.3
    with subprocess.Popen([sys.executable, "-c", f"{BURN}\nprint('burned', flush=True)\ninput()"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout is not None
        clock = TreeStopwatch([os.getpid()], without=[child.pid])
        cost, _ = clock.cost(child.stdout.readline)
        child.communicate("\n")
    assert cost.cpu < 0.3
