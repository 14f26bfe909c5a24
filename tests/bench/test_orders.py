"""What the benchmarks check answers against: the files, replayed row by row, must add up to the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.orders import COLUMNS, NAMES, Orders, Skew, Totals, generate


@pytest.fixture(params=list(Skew))
def skew(request: pytest.FixtureRequest) -> Skew:
    return Skew(request.param)


def replayed(orders: Orders) -> list[Totals]:
    """The totals by the plainest means: a dict."""
    rows = {row["id"]: row for row in pq.read_table(orders.load).to_pylist()}
    totals_found = [totals(rows)]
    for path in orders.both:
        for row in pq.read_table(path).to_pylist():
            if row["op"] == "D":
                del rows[row["id"]]
            else:
                rows[row["id"]] = row
        totals_found.append(totals(rows))
    return totals_found


def totals(rows: dict[int, dict[str, float]]) -> Totals:
    qty = sum(int(row["qty"]) for row in rows.values())
    return Totals(len(rows), qty, sum(int(row["amount"] * 64) for row in rows.values()))


def test_totals_are_those_of_the_files(tmp_path: Path, skew: Skew) -> None:
    orders = generate(tmp_path, rows=3000, changes=200, skew=skew, batches=3)
    assert orders.totals == replayed(orders)
    assert [total.rows for total in orders.totals] == [3000, 3020, 3040, 3060]


def test_a_batch_in_one_file_is_its_upserts_and_its_deletes(tmp_path: Path, skew: Skew) -> None:
    orders = generate(tmp_path, rows=1000, changes=100, skew=skew)
    both = pq.read_table(orders.both[0]).to_pylist()
    ids = {op: {row["id"] for row in both if row["op"] == op} for op in "UD"}
    assert (len(ids["U"]), len(ids["D"])) == (95, 5)
    assert {row["id"] for row in pq.read_table(orders.upserts[0]).to_pylist()} == ids["U"]
    assert {row["id"] for row in pq.read_table(orders.deletes[0]).to_pylist()} == ids["D"]


def test_recent_changes_lie_in_the_last_days(tmp_path: Path) -> None:
    orders = generate(tmp_path, rows=6000, changes=500, skew=Skew.RECENT)
    days = [row["day"] for row in pq.read_table(orders.both[0], columns=["day"]).to_pylist()]
    recent = sum(day >= "2026-01-28" for day in days)
    assert 0.9 * len(days) <= recent < len(days)


def test_files_have_the_columns_that_tables_are_made_with(tmp_path: Path) -> None:
    orders = generate(tmp_path, rows=100, changes=20, skew=Skew.UNIFORM)
    assert pq.read_schema(orders.upserts[0]).names == NAMES
    assert len(NAMES) == len(COLUMNS.split(","))
