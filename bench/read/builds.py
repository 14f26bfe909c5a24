"""What building an image costs the server's builder, and how much memory it takes."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measure import Cost, Stopwatch, forget_peak, median, peak_mib
from bench.read.queries import commit_changes, generate_pending
from bench.read.stores import StoreWriter, create_table, fill_table, split_changes
from bench.report import Report
from bench.running import RunningServer, running_server

BUILD_SECONDS = 300


@dataclass(frozen=True)
class ImageLoads:
    """Loads keyed tables, and so has the server build their images."""

    server_url: str
    server_pid: int
    http: httpx.Client

    @classmethod
    def of(cls, server: RunningServer) -> ImageLoads:
        """Loads from a server."""
        url = f"{server.url}/iceberg/v1/lake/namespaces/bench/tables"
        return cls(server.url, server.pid, httpx.Client(base_url=url, trust_env=False, timeout=600))

    def load(self, table: str) -> dict[str, Any]:
        """The metadata of the newest image; the server may ask for patience."""
        path, until = f"/{table.rpartition('.')[2]}", time.monotonic() + BUILD_SECONDS
        while (answer := self.http.get(path)).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            if time.monotonic() > until:
                raise RuntimeError(f"no image of {table}: {answer.text}")
            time.sleep(0.1)
        metadata: dict[str, Any] = answer.raise_for_status().json()["metadata"]
        return metadata

    def outdate(self, table: str, number: int) -> None:
        """Give the image of the same changes another key: the next load builds it from scratch."""
        updates = [{"action": "set-properties", "updates": {"round": str(number)}}]
        store = f"{self.server_url}/iceberg/v1/lake/namespaces/{table.replace('.', '%1F')}/tables/base"
        self.http.post(store, json={"updates": updates, "requirements": []}).raise_for_status()

    @property
    def builder_pid(self) -> int:
        """The process that builds; the server starts it for its first build."""
        children = Path(f"/proc/{self.server_pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text(encoding="ascii").split()]
        return next(pid for pid in pids if "optimizer.images" in _command(pid))


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Measure each share of pending changes, and as many changes over the large base."""
    report = Report(
        "read-builds", rows=options.rows, large_rows=options.large_rows, days=options.days, rounds=options.rounds
    )
    with running_server(scratch / "firn") as server:
        loads = ImageLoads.of(server)
        for percent, commits in options.pending:
            orders = generate_pending(scratch / f"{percent}-{commits}", options, percent)
            name = fill_table(server, orders)
            commit_changes(server.url, name, orders, commits)
            _measure(loads, name, report, options.rounds, rows=options.rows, percent=percent, commits=commits)
        for commits in sorted({commits for _, commits in options.pending}) if options.large_rows else ():
            name = _large_table(server, scratch / f"large-{commits}", options, commits)
            _measure(loads, name, report, options.rounds, rows=options.large_rows, commits=commits)
    return report


def _large_table(server: RunningServer, scratch: Path, options: argparse.Namespace, commits: int) -> str:
    """A table with a larger base, and five percent of the smaller one's rows as changes, over all of it."""
    table, factor = create_table(server), max(1, options.large_rows // options.rows)
    orders = generate_pending(scratch, options, 5)
    load = pq.read_table(orders.load)
    StoreWriter(server.url, table, "base").commit(_with_ids(load, factor, number) for number in range(factor))
    writer = StoreWriter(server.url, table)
    for rows in split_changes(orders, commits):
        writer.commit([_with_ids(rows, factor, 0)])
    return table


def _with_ids(rows: pa.Table, factor: int, number: int) -> pa.Table:
    """The rows under ids of their own."""
    return rows.set_column(0, "id", pc.add(pc.multiply(rows["id"], factor), number))


def _measure(loads: ImageLoads, table: str, report: Report, rounds: int, **facts: int) -> None:
    loads.load(table)  # starts the builder
    builder, server = Stopwatch([loads.builder_pid]), Stopwatch([loads.server_pid])
    forget_peak(loads.builder_pid)

    def build() -> tuple[Cost, object]:
        return builder.cost(lambda: loads.load(table))

    builds: list[Cost] = []
    requests: list[Cost] = []
    for number in range(rounds):
        loads.outdate(table, number)
        cost, (of_builder, _) = server.cost(build)
        builds.append(of_builder)
        requests.append(cost)
    peak = peak_mib(loads.builder_pid)
    report.line("build", **facts, builder=median(builds).to_json(), server=median(requests).to_json(), peak_mib=peak)
