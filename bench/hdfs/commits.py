"""Commits to catalogs whose warehouses are on a local disk and on HDFS."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from statistics import median, quantiles

import httpx

from bench.hdfs.stage import HDFS, LOCAL, Sides
from bench.report import Report
from bench.running import running_server

NAME = "commit"
_TABLE = "/iceberg/v1/lake/namespaces/bench/tables"
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
_WARM = 10


def run(ends: ExitStack, sides: Sides, options: argparse.Namespace) -> Report:
    """A commit on each side in turns; each sets a property and writes a new metadata file."""
    report = Report("hdfs-commit", commits=options.commits)
    clients = {side: _start(ends, sides, side) for side in (LOCAL, HDFS)}
    milliseconds: dict[str, list[float]] = {side: [] for side in clients}
    for number in range(-_WARM, options.commits):
        for side, client in clients.items():
            began = time.perf_counter()
            update = {"action": "set-properties", "updates": {"number": str(number)}}
            answer = client.post(f"{_TABLE}/t", json={"requirements": [], "updates": [update]})
            answer.raise_for_status()
            if number >= 0:
                milliseconds[side].append((time.perf_counter() - began) * 1000)
    for side, times_ms in milliseconds.items():
        report.line(side, median_ms=round(median(times_ms), 1), p90_ms=round(quantiles(times_ms, n=10)[-1], 1))
    more = median(milliseconds[HDFS]) - median(milliseconds[LOCAL])
    times = median(milliseconds[HDFS]) / median(milliseconds[LOCAL])
    report.line("commit", more_ms=round(more, 1), times_local=round(times, 2))
    return report


def _start(ends: ExitStack, sides: Sides, side: str) -> httpx.Client:
    """A server with its warehouse there, and a table in it."""
    environment = {**sides.environment, "FIRN_WAREHOUSE": sides.locate(side, "commits")}
    server = ends.enter_context(running_server(sides.scratch / f"commits-{side}", environment))
    client = ends.enter_context(httpx.Client(base_url=server.url, timeout=60))
    for path, body in (
        ("/iceberg/v1/lake/namespaces", {"namespace": ["bench"]}),
        (_TABLE, {"name": "t", "schema": _SCHEMA}),
    ):
        client.post(path, json=body).raise_for_status()
    return client
