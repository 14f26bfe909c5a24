"""Continuous upserts, with optimizing and without: what a query takes as the hours go by.

    python -m bench.cdc
    python -m bench.cdc --minutes 1 --rows 20000 --changes 500 --every 5

Two keyed tables hold the same rows. Every few seconds both get the same small batch of upserts, over recent keys and a
tail of old ones, as a change stream brings them. One is optimized by a real optimizer in a process of its own, as the
server plans it; the other has `firn.optimize.enabled=false`. Between batches the same query runs on both, in turns. The
CPU seconds are those of the reading Spark alone: the optimizer works beside it, as it would anywhere.

`flat` is the median of the last quarter of the run over that of the second one: the first warms everything up. A run
too short for the machine goes on until two batches are written and one merge has ended.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.keyed import Stage, stage
from bench.measure import Cost
from bench.orders import DAYS, Orders, Skew, generate
from bench.report import Report
from bench.running import running_optimizer
from firn.protocol.answers.jobs import JobOut

WAYS = ("with", "without")
QUERY = "aggregate"
FIRST_MERGE_SECONDS = 300
PLANNING = {"FIRN_BACKGROUND__PLAN_SECONDS": "2"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One query: when, in seconds from the start, with how many batches behind it, and what it took."""

    at: float
    batches: int
    cost: Cost


@dataclass(frozen=True)
class Stream:
    """Both tables, the batches for them, and what was measured so far."""

    stage: Stage
    orders: Orders
    tables: dict[str, str]
    report: Report
    samples: dict[str, list[Sample]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def run(self, *, seconds: float, every: float) -> int:
        """Batches and queries until the time is over or no batch is left; how many batches were written."""
        began = time.monotonic()
        number = 0
        for number in range(len(self.orders.upserts)):
            if time.monotonic() - began > seconds and number > 1:
                return number
            for way in WAYS:
                self.stage.write_batch(self.tables[way], self.orders, number)
            self._query(time.monotonic() - began, number + 1)
            time.sleep(max(0.0, began + (number + 1) * every - time.monotonic()))
        return number + 1

    def _query(self, at: float, batches: int) -> None:
        """Each way goes first every other time."""
        answers = []
        for way in WAYS if batches % 2 else tuple(reversed(WAYS)):
            cost, rows = self.stage.read(QUERY, self.tables[way])
            self.samples[way].append(Sample(at, batches, cost))
            self.report.line("query", way=way, at_s=round(at, 1), batches=batches, **cost.to_json())
            answers.append(rows)
        if answers[0] != answers[1]:
            raise AssertionError(f"after {batches} batches the two tables differ")


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when the tables differ, or do not hold what the batches add up to."""
    options = _arguments(argv)
    sizes = {"rows": options.rows, "changes": options.changes, "days": options.days}
    report = Report("cdc", **sizes, minutes=options.minutes, every_s=options.every, query=QUERY)
    batches = int(options.minutes * 60 / options.every) + 1
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch,
        stage(Path(scratch), options.memory, PLANNING) as running,
        running_optimizer(running.server, Path(scratch), memory=options.optimizer_memory),
    ):
        directory = Path(scratch) / "orders"
        orders = generate(
            directory, rows=options.rows, changes=options.changes, skew=Skew.RECENT, batches=batches, days=options.days
        )
        policy = {
            "with": {"firn.merge.max-pending-age": options.pending_age},
            "without": {"firn.optimize.enabled": "false"},
        }
        tables = {way: running.keyed_table(orders, **policy[way]) for way in WAYS}
        stream = Stream(running, orders, tables, report)
        written = stream.run(seconds=options.minutes * 60, every=options.every)
        _wait_for_a_merge(stream)
        for way in WAYS:
            running.check(tables[way], orders.totals[written])
        _conclude(stream, written)
    report.save(options.out)
    if options.plot is not None:
        _plot(stream.samples, options.plot)
    return 0


def _wait_for_a_merge(stream: Stream) -> None:
    """TimeoutError when there is none in FIRST_MERGE_SECONDS."""
    deadline = time.monotonic() + FIRST_MERGE_SECONDS
    while not any(job.kind == "merge" for job in _ended(stream, "with")):
        if time.monotonic() > deadline:
            raise TimeoutError("the optimizer has merged nothing")
        time.sleep(1)


def _ended(stream: Stream, way: str) -> list[JobOut]:
    jobs = stream.stage.server.client.tables[stream.tables[way]].jobs(None)
    return [job for job in jobs if job.status == "succeeded"]


def _conclude(stream: Stream, written: int) -> None:
    for way in WAYS:
        ended = _ended(stream, way)
        walls = [sample.cost.wall for sample in stream.samples[way]]
        cpus = [sample.cost.cpu for sample in stream.samples[way]]
        stream.report.line(
            "way",
            way=way,
            batches=written,
            jobs={kind: sum(job.kind == kind for job in ended) for kind in sorted({job.kind for job in ended})},
            flat={"wall": _flat(walls), "cpu": _flat(cpus)},
            median={"wall_s": round(statistics.median(walls), 3), "cpu_s": round(statistics.median(cpus), 2)},
        )


def _flat(values: Sequence[float]) -> float | None:
    """The last quarter over the second; None where there is too little to tell."""
    quarter = len(values) // 4
    if quarter == 0:
        return None
    return round(statistics.median(values[-quarter:]) / statistics.median(values[quarter : 2 * quarter]), 2)


def _plot(samples: dict[str, list[Sample]], path: Path) -> None:
    """Seconds of the query over time, each point the median of the last ten."""
    from matplotlib.figure import Figure  # noqa: PLC0415 -- only who draws needs it

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for way, label in (("without", "never merged"), ("with", "optimized")):
        minutes = [sample.at / 60 for sample in samples[way]]
        costs = [sample.cost.wall for sample in samples[way]]
        smooth = [statistics.median(costs[max(0, at - 9) : at + 1]) for at in range(len(costs))]
        axes.plot(minutes, smooth, label=label)
    axes.set(xlabel="minutes of continuous upserts", ylabel="seconds of one query", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.cdc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=5_000, help="changes of one batch (default: %(default)s)")
    parser.add_argument("--days", type=int, default=DAYS, help="partitions of the table (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=24)
    parser.add_argument("--every", type=float, default=6, help="seconds between two batches (default: %(default)s)")
    parser.add_argument("--pending-age", default="1 min", help="firn.merge.max-pending-age (default: %(default)s)")
    parser.add_argument("--memory", default="3g", help="heap of the reading Spark (default: %(default)s)")
    parser.add_argument("--optimizer-memory", default="2g", help="heap of the optimizer (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="write a picture of it there, as SVG")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
