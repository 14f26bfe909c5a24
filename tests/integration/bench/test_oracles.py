"""Each benchmark refuses to report on a wrong answer."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from bench import cdc, keyed
from bench.hive import upgrades
from bench.hive.tables import HiveFiles
from bench.measure import Cost
from bench.orders import Skew, generate
from bench.read import commits, queries
from bench.report import Report

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("shared_parts")
def test_a_table_with_other_rows_is_refused(tmp_path: Path) -> None:
    orders = generate(tmp_path / "orders", rows=100, changes=20, skew=Skew.UNIFORM, days=2)
    with keyed.stage(tmp_path, "1g") as stage:
        name = stage.table_of_small_files(orders, 1)
        stage.check(name, orders.totals[0])
        with pytest.raises(AssertionError, match="but the batches add up to"):
            stage.check(name, orders.totals[1])


@pytest.mark.usefixtures("shared_parts")
def test_rows_that_no_commit_has_written_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_measure", lambda _server, _table, small, _options, _report: small.make(5))
    with pytest.raises(AssertionError, match="the quantities add up to"):
        commits.run(tmp_path, Namespace(rows=100, days=2, commits=1, commit_rows=5, commit_days=1))


@dataclass
class Answers:
    """A table or an engine, whose reads have these answers in turn."""

    answers: list[list[tuple[int]]]
    name: str = "engine"
    forms: tuple[str, ...] = ("base", "image", "view")

    def read(self, *_columns: str) -> tuple[Cost, Any]:
        return Cost(1.0, 1.0), self.answers.pop(0)


def test_a_change_stream_whose_tables_differ_is_refused() -> None:
    stage = Answers([[(1,)], [(1,)], [(1,)], [(2,)]])
    stream = cdc.Stream(cast("keyed.Stage", stage), cast("Any", None), {"with": "a", "without": "b"}, Report("cdc"))
    stream._query(0.0, 1)
    with pytest.raises(AssertionError, match="after 2 batches the two tables differ"):
        stream._query(1.0, 2)


def test_an_engine_that_reads_image_and_view_differently_is_refused() -> None:
    same: list[list[tuple[int]]] = [[(0,)], [(1,)], [(1,)]]
    queries._measure(Answers([*same[::-1], *same]), "scan", "t", Report("read"), {}, 1)
    with pytest.raises(AssertionError, match="forms of t answer scan differently"):
        queries._measure(Answers([*same[::-1], [(0,)], [(1,)], [(2,)]]), "scan", "t", Report("read"), {}, 1)


def test_an_upgraded_table_with_other_rows_is_refused() -> None:
    files = HiveFiles(Path(), [Path("a")], partitions=2, rows_per_file=10)
    upgrades._compare("t", (10, 2), files)
    with pytest.raises(AssertionError, match="t reads as"):
        upgrades._compare("t", (9, 2), files)
