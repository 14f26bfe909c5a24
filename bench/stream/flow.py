"""What all engines of `upserts` share: the topic, its producer, the clock, and the line of results."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Cost, TreeStopwatch
from bench.report import Report
from bench.stream.producer import Producer, producing
from bench.stream.records import Totals, Upserts, create_topic


@dataclass(frozen=True)
class Flow:
    """The same records for each engine, at the same rate, in a topic of its own."""

    brokers: str
    options: argparse.Namespace
    report: Report
    totals: Totals
    ends: dict[int, int]
    """The offset behind the last record of each partition."""

    @staticmethod
    def of(brokers: str, options: argparse.Namespace, report: Report) -> Flow:
        """Draw all records once, for the oracle."""
        upserts, ends = Upserts(options.keys), Counter[int]()
        for key, _ in upserts.draw(count_records(options)):
            ends[key % options.partitions] += 1
        return Flow(brokers, options, report, upserts.totals(), {n: ends[n] for n in range(options.partitions)})

    @property
    def records(self) -> int:
        """Their number."""
        return count_records(self.options)

    def create_topic(self, engine: str) -> str:
        """The engine's topic, without records yet."""
        topic = f"{engine.replace('/', '-')}-{time.time_ns()}"
        create_topic(self.brokers, topic, self.options.partitions)
        return topic

    @contextmanager
    def producing(self, topic: str) -> Iterator[Producer]:
        """Start the producer."""
        options = self.options
        with producing(self.brokers, topic, options.partitions, options.keys, self.records, options.rate) as producer:
            yield producer

    def measure(self, engine: str, producer: Producer, action: Callable[[], object]) -> None:
        """Run what brings all further records into the engine's table, and report its CPU seconds."""
        clock = TreeStopwatch([os.getpid()], without=[producer.process.pid])
        before = producer.produced
        cost, _ = clock.cost(action)
        rows = max(self.records - before, 1)
        self.report.line(
            "upserts",
            engine=engine,
            records=rows,
            **cost.to_json(),
            cpu_s_per_million=round(cost.cpu / rows * 1e6, 1),
            records_per_cpu_s=round(rows / max(cost.cpu, 0.01)),
        )

    def measure_step(self, step: str, engine: str, action: Callable[[], object]) -> None:
        """Run something after the last record, and report its cost."""
        cost, _ = TreeStopwatch([os.getpid()]).cost(action)
        self.report.line(step, engine=engine, **cost.to_json())

    def measure_read(self, engine: str, read: Callable[[], tuple[int, ...]]) -> Cost:
        """Run the query whose answer is known, and report its cost; AssertionError if the answer is wrong."""
        cost, row = TreeStopwatch([os.getpid()]).cost(read)
        totals = Totals(*row)
        if totals != self.totals:
            raise AssertionError(f"{engine} holds {totals}, but the records add up to {self.totals}")
        self.report.line("read", engine=engine, rows=totals.rows, **cost.to_json())
        return cost


def count_records(options: argparse.Namespace) -> int:
    """The records of the whole run."""
    return int(options.rate * options.seconds)


def wait_until_warm(flow: Flow, producer: Producer) -> None:
    """Let the engine work for a while, so that starts and first compilations do not count."""
    while producer.produced < min(flow.options.warm_seconds * flow.options.rate, flow.records // 2):
        time.sleep(0.2)


def count_bytes(directory: Path) -> dict[str, float]:
    """Files below a directory and their MB."""
    sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
    return {"files": len(sizes), "mb": round(sum(sizes) / 1e6, 1)}
