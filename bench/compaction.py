"""Compaction: how many small tables an optimizer packs in a minute.

    python -m bench.compaction
    python -m bench.compaction --part small --tables 60 --files 5 --slots 1 4

`small`: tables of a few small files each, all waiting when the optimizer begins. It is a process of its own, warmed up
by some tables more. What counts is the time from the first lease to the last report, as the server has noted them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from bench.measure import cpu_seconds
from bench.report import Report
from bench.running import RunningServer, running_server
from firn.wire import Job

PARTS = ("small",)
NAMESPACE = "small"
ROWS = 1000
WARM_UP = 4
LONGEST = 1800.0


def main(argv: list[str] | None = None) -> int:
    """Run the parts; an exit code other than 0 says that a job did not do what it should."""
    given = _arguments(argv)
    report = Report("compaction", tables=given.tables, files=given.files, rows=ROWS)
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch:
        for slots in given.slots:
            small_tables(report, Path(scratch) / f"slots-{slots}", slots, given)
    report.save(given.out)
    return 0


def small_tables(report: Report, scratch: Path, slots: int, given: argparse.Namespace) -> None:
    """One optimizer with so many slots packs all tables."""
    scratch.mkdir()
    with running_server(scratch / "data") as server, _optimizer(server, scratch, slots, given.memory) as pids:
        names = _tables(server, given.tables + WARM_UP * slots, given.files)
        _packed(server, names[given.tables :])
        before = sum(cpu_seconds(pid) for pid in pids())
        jobs = _packed(server, names[: given.tables])
        cpu = sum(cpu_seconds(pid) for pid in pids()) - before
    for job in jobs:
        if job.result["rewritten_files"] != given.files:
            raise RuntimeError(f"{job.table}: {job.result}")
    begins, ends = [_leased_at(job) for job in jobs], [job.ended_at for job in jobs if job.ended_at is not None]
    wall = (max(ends) - min(begins)).total_seconds()
    report.line(
        "small tables",
        slots=slots,
        tables_per_minute=round(60 * len(jobs) / wall, 1),
        wall_s=round(wall, 1),
        cpu_s=round(cpu, 1),
        job_s=round(median((end - begin).total_seconds() for begin, end in zip(begins, ends, strict=True)), 3),
    )


def _tables(server: RunningServer, count: int, files: int) -> list[str]:
    """Tables of one file for each append."""
    catalog = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace(NAMESPACE)
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "note": [f"note {n}" for n in range(ROWS)]})
    names = [f"{NAMESPACE}.t{number}" for number in range(count)]
    for name in names:
        table = catalog.create_table(name, rows.schema, properties={"firn.rewrite.min-files": "2"})
        for _ in range(files):
            table.append(rows)
    return names


def _packed(server: RunningServer, names: Sequence[str]) -> list[Job]:
    """Ask for all, and wait until the last has ended."""
    asked = [server.client.tables[name].rewrite() for name in names]
    deadline = time.monotonic() + LONGEST
    while True:
        jobs = [server.client.jobs.get(job.id) for job in asked]
        if all(job.status.is_final for job in jobs):
            return jobs
        if time.monotonic() > deadline:
            raise RuntimeError("the jobs do not end")
        time.sleep(1)


def _leased_at(job: Job) -> datetime:
    return datetime.fromisoformat(job.json_value()["leased_at"])


@contextmanager
def _optimizer(server: RunningServer, scratch: Path, slots: int, memory: str) -> Iterator[Callable[[], list[int]]]:
    """A real optimizer; gives a function for the ids of its processes."""
    command = [sys.executable, "-m", "optimizer", "--server", server.url, "--slots", str(slots)]
    with (
        (scratch / "optimizer.log").open("wb") as log,
        subprocess.Popen([*command, "--driver-memory", memory], stderr=log, start_new_session=True) as process,
    ):
        try:
            yield lambda: _session(process.pid)
        finally:
            process.terminate()
            process.wait(120)


def _session(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue
    return found


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compaction", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, default="small", help="what to measure (default: %(default)s)")
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--files", type=int, default=5, help="in each table")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4], help="jobs side by side, in turns")
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
