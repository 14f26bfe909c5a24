"""The least that a pending change can cost a reader of one row: a file more, hidden positions, or both.

Each table has the same base and few pending changes near the row that is read. No design of images can cost less than
the cheapest of these, as long as base's files stay as they are.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.keyed import stage
from bench.measure import Cost, median, ratio
from bench.orders import Orders
from bench.read.queries import commit_changes, generate_pending
from bench.read.readers import Reader, start_readers
from bench.read.stores import StoreWriter
from bench.report import Report

READ_ID = 1000
"""The key that `lookup` reads."""
REPEATS = 10
"""Lookups of a measurement: the clock counts hundredths of a second."""


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Measure the lookup on base, and on images of each kind of pending change."""
    if options.rows <= READ_ID:
        raise SystemExit(f"--part bounds reads the row with id {READ_ID}: give --rows more than {READ_ID}")
    report = Report("read-bounds", rows=options.rows, days=options.days, rounds=options.rounds, engines=options.engines)
    with (
        stage(scratch, options.memory) as running,
        start_readers(running, options.engines, scratch) as readers,
    ):
        orders = generate_pending(scratch / "orders", options, 5)
        tables = {}
        for kind, changes in make_changes(orders).items():
            tables[kind] = running.keyed_table(orders)
            StoreWriter(running.server.url, tables[kind]).commit([changes])
        tables["5 %"] = running.keyed_table(orders)
        commit_changes(running.server.url, tables["5 %"], orders, 1)
        for reader in readers:
            _measure(reader, tables, report, options.rounds)
    return report


def make_changes(orders: Orders) -> dict[str, pa.Table]:
    """Changes of the day of the row that is read. None of them changes this row."""
    rows = pq.read_table(orders.load)
    day = rows.filter(pc.equal(rows["id"], READ_ID))["day"][0]
    near = rows.filter(pc.and_(pc.equal(rows["day"], day), pc.not_equal(rows["id"], READ_ID))).slice(0, 2)
    around = near.set_column(0, "id", pa.array([-1, 10**12], near["id"].type))
    return {
        "hidden": _with_operation(near, "D"),
        "file": _with_operation(around, "I"),  # its range of keys holds the key
        "both": pa.concat_tables([_with_operation(near, "D"), _with_operation(around, "I")]),
    }


def _with_operation(rows: pa.Table, operation: str) -> pa.Table:
    return rows.append_column("_op", pa.array([operation] * len(rows)))


def _measure(reader: Reader, tables: dict[str, str], report: Report, rounds: int) -> None:
    costs: dict[str, list[Cost]] = defaultdict(list)
    forms = {"base": ("base", tables["hidden"]), **{kind: ("image", table) for kind, table in tables.items()}}
    for number in range(rounds + 1):
        for kind, (form, table) in forms.items():
            total = Cost(0.0, 0.0)
            for _ in range(REPEATS):
                cost, rows = reader.read("lookup", table, form)
                total += cost
                if len(rows) != 1:
                    raise AssertionError(f"{reader.name} finds {len(rows)} rows in {kind}")
            if number:  # the first round warms up
                costs[kind].append(Cost(total.wall / REPEATS, total.cpu / REPEATS))
    medians = {kind: median(of_kind) for kind, of_kind in costs.items()}
    times = {kind: ratio(cost, medians["base"]) for kind, cost in medians.items()}
    seconds = {kind: {"cpu_s": round(cost.cpu, 3), "wall_s": round(cost.wall, 3)} for kind, cost in medians.items()}
    report.line("lookup", engine=reader.name, times_base=times, **seconds)
