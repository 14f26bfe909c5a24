"""Records at a constant rate, brought into a table by Firn and by what a user might take instead.

Each system gets a topic of its own with the same records. First it takes one record of each key, which creates the
rows and warms it up. Then records of any key come at a constant rate, while a reader in processes of its own asks the
same question again and again. In the end the table must have the rows and sums that a dict of the records has.

CPU seconds are those of the processes that write and merge: from the first record of the second part until a reader
has seen the last one. Broker, producer and readers are the same for all and not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import TreeStopwatch
from bench.report import Report
from bench.stream.records import Totals, Upserts, create_topic, keep_rate, produce
from bench.stream.stage import running_broker
from bench.stream.systems import SYSTEMS, NotYet, System

LIMIT_SECONDS = 240.0
AIM_OF_BEST, AIM_OF_HUDI = 2.0, 5.0


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """What only this part knows."""
    peers = [name for name in SYSTEMS if name != "firn-in-spark"]
    group.add_argument("--systems", nargs="+", choices=SYSTEMS, default=peers)
    group.add_argument("--rate", type=int, default=4_000, help="records per second (default: %(default)s)")
    group.add_argument("--seconds", type=int, default=80, help="of records at this rate (default: %(default)s)")
    group.add_argument("--every", type=int, default=10, help="seconds between commits (default: %(default)s)")
    group.add_argument("--rows", type=int, default=300_000, help="keys of the table (default: %(default)s)")


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """One system after the other, with the same sizes."""
    sizes = {name: getattr(options, name) for name in ("rate", "seconds", "every", "rows", "partitions", "memory")}
    report = Report("stream-sustained", **sizes)
    rates: dict[str, float] = {}
    with running_broker(scratch / "kafka") as brokers:
        for name in options.systems:
            directory = scratch / name
            directory.mkdir()
            topic = f"{name}{os.getpid()}"
            create_topic(brokers, topic, options.partitions)
            first = Upserts(options.rows, unique=True)
            produce(brokers, topic, options.partitions, first.draw(options.rows))
            with SYSTEMS[name](directory, brokers, topic, options) as system:
                wait_for(system, first.totals())
                system.settle()
                trial = Trial(system, brokers, topic, first.rows, options, report, name)
                rates[name] = trial.run()
    _compare(report, rates)
    return report


def wait_for(system: System, totals: Totals) -> None:
    """Until a reader sees just these rows and sums; AssertionError with what it sees instead."""
    deadline = time.monotonic() + LIMIT_SECONDS
    seen: Totals | None = None
    while seen != totals:
        if time.monotonic() > deadline:
            raise AssertionError(f"the table holds {seen}, but the records add up to {totals}")
        time.sleep(1)
        try:
            seen = system.read()[0]
        except NotYet:
            continue


@dataclass
class Trial:
    """The part of a system's turn that is measured."""

    system: System
    brokers: str
    topic: str
    rows: dict[int, tuple[int, int]]
    options: argparse.Namespace
    report: Report
    name: str
    queries: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)

    def run(self) -> float:
        """Rows per CPU second of the writing."""
        upserts = Upserts(self.options.rows, seed=43, rows=self.rows)
        records = self.options.rate * self.options.seconds
        clock = TreeStopwatch(self.system.pids)
        cost, _ = clock.cost(lambda: self._stream(upserts, records))
        per_cpu: float = records / max(cost.cpu, 0.01)
        third = max(1, len(self.queries) // 3)
        self.report.line(
            "system",
            system=self.name,
            records=records,
            rows_per_cpu_s=round(per_cpu),
            cpu_s_per_million=round(1e6 / per_cpu, 1),
            **cost.to_json(),
            late_s=round(cost.wall - self.options.seconds, 1),
            age_s={"median": _median(self.ages), "most": round(max(self.ages), 1)},
            query_s={
                "median": _median(self.queries),
                "first_third": _median(self.queries[:third]),
                "last_third": _median(self.queries[-third:]),
            },
            **self.system.describe(),
        )
        return per_cpu

    def _stream(self, upserts: Upserts, records: int) -> None:
        drawn = keep_rate(upserts.draw(records), self.options.rate)
        target = (self.brokers, self.topic, self.options.partitions, drawn)
        producer = threading.Thread(target=produce, args=target)
        producer.start()
        start = time.time()
        while producer.is_alive():
            began, clock = time.monotonic(), time.time()
            _, newest = self.system.read()
            self.queries.append(time.monotonic() - began)
            self.ages.append(clock - max(start, newest / 1_000))
            producer.join(max(0.0, 4 - (time.monotonic() - began)))
        wait_for(self.system, upserts.totals())


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 2)


def _compare(report: Report, rates: dict[str, float]) -> None:
    """How many times a peer's rows per CPU second Firn has."""
    peers = {name: round(rates["firn"] / rate, 2) for name, rate in rates.items() if name != "firn" and "firn" in rates}
    if peers:
        report.line("sustained", firn_over=peers, aim={"best": AIM_OF_BEST, "hudi": AIM_OF_HUDI})
