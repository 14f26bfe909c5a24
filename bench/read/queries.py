"""The same queries on base, on the image and on the view, by several engines, in turns."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from bench.keyed import READS, stage
from bench.measure import Cost, median, ratio
from bench.orders import Orders, Skew, generate
from bench.read.readers import Reader, start_readers
from bench.read.stores import StoreWriter, split_changes
from bench.report import Report


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Measure each share of pending changes."""
    report = Report(
        "read-queries", rows=options.rows, days=options.days, rounds=options.rounds, engines=options.engines
    )
    with (
        stage(scratch, options.memory) as running,
        start_readers(running, options.engines, scratch) as readers,
    ):
        for percent, commits in options.pending:
            orders = generate_pending(scratch / f"{percent}-{commits}", options, percent)
            name = running.keyed_table(orders)
            commit_changes(running.server.url, name, orders, commits)
            running.check(name, orders.totals[1])
            running.check(f"{name}.merged", orders.totals[1])
            running.check(f"{name}.base", orders.totals[0])
            for reader in readers:
                for query in READS:
                    _measure(reader, query, name, report, {"percent": percent, "commits": commits}, options.rounds)
    return report


def generate_pending(directory: Path, options: argparse.Namespace, percent: int, rows: int | None = None) -> Orders:
    """Orders with one batch that changes so many percent of the rows that a table of `--rows` has."""
    changes = options.rows * percent // 100
    return generate(directory, rows=rows or options.rows, changes=changes, skew=Skew.UNIFORM, days=options.days)


def commit_changes(url: str, table: str, orders: Orders, commits: int) -> None:
    """Let the first batch of changes be pending, in so many commits."""
    writer = StoreWriter(url, table)
    for rows in split_changes(orders, commits):
        writer.commit([rows])


def _measure(reader: Reader, query: str, table: str, report: Report, pending: dict[str, int], rounds: int) -> None:
    """One line: what each form costs, and how many times base. The forms of changed rows have to agree."""
    costs: dict[str, list[Cost]] = defaultdict(list)
    answers: dict[str, object] = {}
    for number in range(rounds + 1):
        for form in reader.forms if number % 2 else reader.forms[::-1]:
            cost, answers[form] = reader.read(query, table, form)
            if number:  # the first round warms up
                costs[form].append(cost)
    merged = [answers[form] for form in reader.forms if form != "base"]
    if any(answer != merged[0] for answer in merged):
        raise AssertionError(f"{reader.name}: forms of {table} answer {query} differently")
    medians = {form: median(costs[form]) for form in reader.forms}
    times = {form: ratio(medians[form], medians["base"]) for form in reader.forms}
    seconds = {form: cost.to_json() for form, cost in medians.items()}
    report.line("read", engine=reader.name, **pending, query=query, times_base=times, **seconds)
