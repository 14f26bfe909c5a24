"""Records of the stream benchmark, and how CPU seconds of a tree of processes are counted."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bench.measure import TreeStopwatch
from bench.report import Report
from bench.stream import sustained
from bench.stream.records import DAYS, Totals, Upserts, keep_rate
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
