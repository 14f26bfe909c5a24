"""Records of the stream benchmark, and how CPU seconds of a tree of processes are counted."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from bench.measure import TreeStopwatch
from bench.report import Report
from bench.stream import fleet, sustained, visible
from bench.stream.readers import Polling
from bench.stream.records import DAYS, Totals, Upserts, keep_rate
from bench.stream.sightings import Arrivals, Looks, describe_ages
from bench.stream.systems import NotYet, System

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


def test_records_keep_their_rate_and_their_order() -> None:
    began = time.monotonic()
    kept = list(keep_rate(iter([(number, "") for number in range(200)]), 1_000))
    assert kept == [(number, "") for number in range(200)]
    assert time.monotonic() - began >= 0.15


def test_a_table_with_other_rows_than_the_records_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sustained, "LIMIT_SECONDS", 0.5)
    lacking = System([], lambda: [1, 2, 3, 4])
    with pytest.raises(AssertionError, match=r"holds Totals\(rows=1.*add up to Totals\(rows=2"):
        sustained.wait_for(lacking, Totals(2, 2, 3))
    with pytest.raises(AssertionError, match="holds None"):
        sustained.wait_for(System([], lambda: [0, None, None, None]), Totals(2, 2, 3))


def test_a_trial_ends_when_a_reader_has_seen_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table here is what the producer has sent."""
    upserts = Upserts(20, unique=True)
    list(upserts.draw(20))

    def keep_all(_brokers: str, _topic: str, _partitions: int, records: Iterator[tuple[int, str]]) -> None:
        for _ in records:
            pass

    def ask() -> list[int]:
        totals = upserts.totals()
        return [totals.rows, totals.qty, totals.amount, time.time_ns() // 1_000_000]

    monkeypatch.setattr(sustained, "produce", keep_all)
    options = argparse.Namespace(rows=20, rate=100, seconds=1, partitions=1)
    report = Report("stream-sustained")
    system = System([os.getpid()], ask, describe=lambda: {"jobs": 1})
    assert sustained.Trial(system, "", "", upserts.rows, options, report, "firn").run() > 0
    line = report.lines[0]
    assert (line["records"], line["jobs"]) == (100, 1)
    assert line["age_s"]["most"] < 1


def test_a_table_without_rows_is_not_read_yet() -> None:
    with pytest.raises(NotYet):
        System([], lambda: [0, None, None, None]).read()


def test_records_that_another_process_sends_are_taken_over() -> None:
    upserts, other = Upserts(keys=50), Upserts(keys=50)
    list(upserts.draw(1_200))
    other.apply(1_200)
    assert other.rows == upserts.rows


def test_a_record_is_seen_by_the_first_answer_that_is_not_older() -> None:
    looks = Looks(ended=[100, 200, 300], newest=[(0, 60), (150, 60), (150, 260)])
    times = [np.array([40, 140, 150]), np.array([50, 210])]
    assert looks.ages(times, since=0).tolist() == [160, 60, 50, 50, 90]
    assert looks.ages(times, since=100).tolist() == [60, 50, 90]
    with pytest.raises(AssertionError, match="1 records of partition 0 were never seen"):
        looks.ages([np.array([140, 151]), np.array([], np.int64)], since=0)


def test_records_of_the_warm_up_give_rows_and_no_ages() -> None:
    arrivals = Arrivals({1: (1, 1)}, since=50)
    arrivals.take(100, [1, 2], [5, 6], [50, 60], np.array([40, 60]))
    assert (arrivals.records, arrivals.rows, arrivals.ages().tolist()) == (2, {1: (5, 50), 2: (6, 60)}, [40])
    assert describe_ages(np.array([10, 20])) == {"p50": 15, "p95": 20, "p99": 20, "most": 20}
    with pytest.raises(ValueError, match="no record was made"):
        describe_ages(np.array([], np.int64))


@pytest.mark.parametrize(
    ("totals", "records"),
    [
        (Totals(1, 2, 3), None),  # another sum
        (Totals(1, 2, 4), 4),  # a record that has not come
        (Totals(1, 2, 4), 6),  # one that came twice
    ],
)
def test_a_reader_that_sees_something_else_is_refused(
    totals: Totals, records: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible, "LIMIT_SECONDS", 0.05)

    class Other(Polling):
        def records(self) -> int | None:
            return records

    reader = Other(lambda: [1], lambda: totals, pause=0.01)
    with pytest.raises(AssertionError, match=r"5 records add up to Totals\(rows=1, qty=2, amount=4\)"):
        visible.look_until(reader, Totals(1, 2, 4), 5)
    assert reader.describe()["reads"] == len(reader.looks.ended)


def test_records_that_a_reader_has_not_seen_are_missed() -> None:
    times = [np.array([40, 140]), np.array([150])]
    visible.check_ages(np.array([1, 2]), times, since=100)
    with pytest.raises(AssertionError, match="has seen 2 of 3 records"):
        visible.check_ages(np.array([1, 2]), times, since=0)


def test_each_record_of_a_fleet_is_in_one_commit() -> None:
    drains = [fleet.Drained(at=200, end=5, records=2), fleet.Drained(at=100, end=3, records=3)]
    assert fleet.find_commits("t", drains, 5).tolist() == [100, 100, 100, 200, 200]
    for other in (drains[:1], [*drains, drains[0]], [drains[0]] * 2 + drains[:1]):
        with pytest.raises(AssertionError, match=r"drains of t have brought \d changes of 5 records"):
            fleet.find_commits("t", other, 5)


def test_a_table_of_a_fleet_with_other_rows_is_refused() -> None:
    expected = {1: (2, 3)}
    fleet.check_rows("t", [(1, 2, 3)], expected)
    for rows in ([], [(1, 2, 4)], [(1, 2, 3)] * 2, [(2, 2, 3)]):
        with pytest.raises(AssertionError, match=r"t has \d rows, but its records give"):
            fleet.check_rows("t", rows, expected)
