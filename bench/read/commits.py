"""Many small commits, with a reader after each."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measure import Stopwatch, peak_mib
from bench.orders import Skew, generate
from bench.read.builds import ImageLoads
from bench.read.stores import StoreWriter, fill_table
from bench.report import Report
from bench.running import RunningServer, running_server

PARTS = 5
"""Of a run: the waits of each are reported, so that one sees whether they grow."""


@dataclass
class SmallCommits:
    """Updates of random rows of the newest days, and what the table's quantities then add up to."""

    rows: pa.Table
    quantities: npt.NDArray[np.int64]
    random: np.random.Generator

    @classmethod
    def of(cls, load: Path, days: int) -> SmallCommits:
        """Updates for the rows in these Parquet files."""
        rows = pq.read_table(load)
        quantities = np.zeros(len(rows), np.int64)
        quantities[rows["id"].to_numpy()] = rows["qty"].to_numpy()
        newest = pa.array(sorted(pc.unique(rows["day"]).to_pylist())[-days:])
        return cls(rows.filter(pc.is_in(rows["day"], newest)), quantities, np.random.default_rng(42))

    def make(self, count: int) -> pa.Table:
        """The rows of one commit."""
        picked = self.rows.take(self.random.choice(len(self.rows), min(count, len(self.rows)), replace=False))
        quantities = self.random.integers(1, 100, len(picked))
        self.quantities[picked["id"].to_numpy()] = quantities
        at = picked.schema.get_field_index("qty")
        picked = picked.set_column(at, "qty", pa.array(quantities, pa.int32()))
        return picked.append_column("_op", pa.array(["U"] * len(picked)))


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Commit, read, commit, read …"""
    report = Report("read-commits", rows=options.rows, commits=options.commits, commit_rows=options.commit_rows)
    orders = generate(scratch / "orders", rows=options.rows, changes=20, skew=Skew.UNIFORM, days=options.days)
    with running_server(scratch / "firn") as server:
        name, small = fill_table(server, orders), SmallCommits.of(orders.load, options.commit_days)
        _measure(server, name, small, options, report)
        total = pc.sum(server.client.scan(f"lake.{name}", columns=["qty"]).to_arrow()["qty"]).as_py()
    if total != small.quantities.sum():
        raise AssertionError(f"the quantities add up to {total}, not {small.quantities.sum()}")
    return report


def _measure(
    server: RunningServer, table: str, small: SmallCommits, options: argparse.Namespace, report: Report
) -> None:
    loads, writer = ImageLoads.of(server), StoreWriter(server.url, table)

    def wait() -> float:
        return wait_for_commit(loads, writer, small.make(options.commit_rows))

    location = Path(str(loads.load(table)["location"]).removeprefix("file://"))
    wait()  # starts the builder
    watch, commits = Stopwatch([loads.builder_pid]), max(1, options.commits // PARTS)
    for first in range(0, options.commits, commits):
        cost, waits = watch.cost(lambda: [wait() for _ in range(commits)])
        builder = {"builder_cpu_s": round(cost.cpu, 2), "peak_mib": peak_mib(loads.builder_pid)}
        report.line("commits", commits=first + commits, **describe(waits), **builder, **dict(_sizes(location)))


def wait_for_commit(loads: ImageLoads, writer: StoreWriter, rows: pa.Table) -> float:
    """Commit, and read until the table shows the commit: seconds from the answer to the commit on."""
    snapshot = writer.commit([rows])
    began = time.perf_counter()
    while loads.load(writer.table)["snapshots"][-1]["summary"]["firn.image.change-snapshot"] != str(snapshot):
        time.sleep(0.01)
    return time.perf_counter() - began


def describe(waits: list[float]) -> dict[str, Any]:
    """Milliseconds that readers waited."""
    p50, p95, most = np.quantile(waits, [0.5, 0.95, 1.0]) * 1000
    return {"wait_ms": {"p50": round(p50), "p95": round(p95), "most": round(most)}}


def _sizes(location: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Files and MiB in the directories of images, and of the change store beside them."""
    for directory in ("merged", "metadata", "change/data"):
        files = [path.stat().st_size for path in (location / directory).glob("*") if path.is_file()]
        yield directory, {"files": len(files), "mib": round(sum(files) / 2**20, 1)}
