"""Ten tables that get commits side by side: how long after a commit a reader sees it."""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.measure import Stopwatch
from bench.orders import Skew, generate
from bench.read.builds import ImageLoads
from bench.read.commits import SmallCommits, describe, wait_for_commit
from bench.read.stores import StoreWriter, fill_table
from bench.report import Report
from bench.running import running_server

EVERY_SECONDS = 6.0
"""Ten commits a minute."""


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Write to all tables for some minutes, each from a thread of its own."""
    rows = max(options.rows // options.tables, options.days)
    report = Report("read-visible", rows_of_each=rows, tables=options.tables, minutes=options.minutes)
    orders = generate(scratch / "orders", rows=rows, changes=20, skew=Skew.UNIFORM, days=options.days)
    with running_server(scratch / "firn") as server:
        loads = ImageLoads.of(server)
        writers = [StoreWriter(server.url, fill_table(server, orders)) for _ in range(options.tables)]
        small = [SmallCommits.of(orders.load, options.commit_days) for _ in writers]
        for writer, updates in zip(writers, small, strict=True):  # starts the builder
            wait_for_commit(loads, writer, updates.make(options.commit_rows))
        watch = Stopwatch([server.pid, loads.builder_pid])
        cost, waits = watch.cost(lambda: _write_to_all(loads, writers, small, options))
    report.line("visible", commits=len(waits), **describe(waits), cpus=round(cost.cpu / cost.wall, 2))
    return report


def _write_to_all(
    loads: ImageLoads, writers: list[StoreWriter], small: list[SmallCommits], options: argparse.Namespace
) -> list[float]:
    """Commits and reads side by side; seconds that each reader waited."""
    until = time.monotonic() + options.minutes * 60

    def write(number: int) -> list[float]:
        time.sleep(number * EVERY_SECONDS / len(writers))
        waits: list[float] = []
        while time.monotonic() < until:
            began = time.monotonic()
            waits.append(wait_for_commit(loads, writers[number], small[number].make(options.commit_rows)))
            time.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
        return waits

    with ThreadPoolExecutor(len(writers)) as threads:
        return [wait for waits in threads.map(write, range(len(writers))) for wait in waits]
