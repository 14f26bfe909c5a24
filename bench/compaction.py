"""Compaction: a table of very many small files, and very many small tables.

    python -m bench.compaction
    python -m bench.compaction --part small --tables 60 --files 5 --slots 1 4
    python -m bench.compaction --part large --rows 200000 --pieces 100 --rounds 1

`small`: tables of a few small files each, all waiting when the optimizer begins. It is a process of its own, warmed up
by some tables more. What counts is the time from the first lease to the last report, as the server has noted them.

`large`: one table in a thousand files. Firn's time is from the request for the job to its end, the optimizer's code
running in the Spark in which its peer, `CALL rewrite_data_files` with no options, runs as well, in turns, each on a
new table with the same rows. `read` is a scan of all columns before and after.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from bench.keyed import Stage, stage
from bench.measure import Cost, cpu_seconds, ratio
from bench.measure import median as median_cost
from bench.orders import Orders, Skew, generate
from bench.report import Report
from bench.running import RunningServer, running_optimizer, running_server
from bench.working import Working, working
from firn.protocol.answers.jobs import JobOut

PARTS = ("small", "large")
NAMESPACE = "small"
ROWS = 1000
WARM_TABLES = 4
LONGEST = 1800.0
FIRN, BY_HAND = "firn", "rewrite_data_files"


@dataclass(frozen=True, slots=True)
class Packed:
    """One packing of the large table, and a scan of it before and after."""

    before: Cost
    packing: Cost
    after: Cost

    def to_json(self) -> dict[str, dict[str, float]]:
        """All three."""
        return {"before": self.before.to_json(), "packing": self.packing.to_json(), "after": self.after.to_json()}


def main(argv: list[str] | None = None) -> int:
    """Run the parts; an exit code other than 0 says that a job did not do what it should."""
    options = _arguments(argv)
    small = {"tables": options.tables, "files": options.files, "rows": ROWS}
    large = {"rows": options.rows, "pieces": options.pieces, "rounds": options.rounds}
    report = Report("compaction", small=small, large=large)
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch:
        if "small" in options.part:
            for slots in options.slots:
                small_tables(report, Path(scratch) / f"slots-{slots}", slots, options)
        if "large" in options.part:
            large_table(report, Path(scratch), options)
    report.save(options.out)
    return 0


def large_table(report: Report, scratch: Path, options: argparse.Namespace) -> None:
    """Both ways on tables alike, the other first in every other round; the first round only warms up."""
    packed_by_way: dict[str, list[Packed]] = {way: [] for way in (FIRN, BY_HAND)}
    with stage(scratch, options.memory) as running:
        optimizer = working(running)
        orders = generate(scratch / "orders", rows=options.rows, changes=0, skew=Skew.UNIFORM, batches=0)
        for number in range(options.rounds + 1):
            for way in (FIRN, BY_HAND) if number % 2 else (BY_HAND, FIRN):
                packed = _packed_large(running, optimizer if way == FIRN else None, orders, options.pieces)
                report.line("round", number=number, way=way, **packed.to_json())
                if number:
                    packed_by_way[way].append(packed)
    by_hand = median_cost([packed.packing for packed in packed_by_way[BY_HAND]])
    for way, rounds in packed_by_way.items():
        packing = median_cost([packed.packing for packed in rounds])
        before, after = (median_cost([getattr(packed, when) for packed in rounds]) for when in ("before", "after"))
        report.line(
            "large table",
            way=way,
            times_by_hand=ratio(packing, by_hand),
            packing=packing.to_json(),
            read_before=before.to_json(),
            read_after=after.to_json(),
        )


def _packed_large(running: Stage, optimizer: Working | None, orders: Orders, pieces: int) -> Packed:
    """A new table, packed by the optimizer or, without one, by hand; checked before and after."""
    name = running.table_of_small_files(orders, pieces)
    running.check(name, orders.totals[0])
    before, _ = running.read("scan", name)
    packing, files = running.clock.cost(lambda: _pack(running, optimizer, name))
    after, _ = running.read("scan", name)
    running.check(name, orders.totals[0])
    if files != pieces:
        raise RuntimeError(f"{files} of {pieces} files were packed")
    running.spark.sql(f"DROP TABLE lake.{name}")
    return Packed(before, packing, after)


def _pack(running: Stage, optimizer: Working | None, name: str) -> int:
    """How many files were packed."""
    if optimizer is None:
        (row,) = running.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}')").collect()
        return int(row["rewritten_data_files_count"])
    return int(str(optimizer.run(running.server.client.tables[name].start_job("rewrite")).result["rewritten_files"]))


def small_tables(report: Report, scratch: Path, slots: int, options: argparse.Namespace) -> None:
    """One optimizer with so many slots packs all tables."""
    scratch.mkdir()
    with (
        running_server(scratch / "data") as server,
        running_optimizer(server, scratch, memory=options.memory, slots=slots) as pids,
    ):
        names = _tables(server, options.tables + options.warm_tables * slots, options.files)
        _packed(server, names[options.tables :])
        before = sum(cpu_seconds(pid) for pid in pids())
        jobs = _packed(server, names[: options.tables])
        cpu = sum(cpu_seconds(pid) for pid in pids()) - before
    for job in jobs:
        if job.result["rewritten_files"] != options.files:
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


def _packed(server: RunningServer, names: Sequence[str]) -> list[JobOut]:
    """Ask for all, and wait until the last has ended."""
    started = [server.client.tables[name].start_job("rewrite") for name in names]
    deadline = time.monotonic() + LONGEST
    while True:
        jobs = [server.client.jobs.get(job.id) for job in started]
        if all(job.status.is_final for job in jobs):
            return jobs
        if time.monotonic() > deadline:
            raise RuntimeError("the jobs do not end")
        time.sleep(1)


def _leased_at(job: JobOut) -> datetime:
    return datetime.fromisoformat(job.json_value()["leased_at"])


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compaction", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, nargs="+", default=PARTS, help="what to measure (default: both)")
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument(
        "--warm-tables",
        type=int,
        default=WARM_TABLES,
        help="packed by each slot before, unmeasured",
    )
    parser.add_argument("--files", type=int, default=5, help="in each table")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4], help="jobs side by side, in turns")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the large table (default: %(default)s)")
    parser.add_argument("--pieces", type=int, default=1000, help="files of the large table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of the large table (default: %(default)s)")
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
