"""From a record in the topic to a reader who sees it: reads with the log, and reads of the table after drains."""

from __future__ import annotations

import argparse
import bisect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

import firn.spark
from bench.report import Report
from bench.stream.producer import Producer, producing
from bench.stream.records import COLUMNS, Upserts
from bench.stream.stage import Stage, stage
from firn.spark.log_drain import drain

MAX_LAG_SECONDS = 2.0
AIMS = {"log": {"p99": 1.0}, "table": {"p95": 5.0}}
LAST_SECONDS = 120.0


@dataclass
class Sightings:
    """For each partition of the topic, when a reader had records up to which time; all in ms."""

    seen: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, read_at: int, newest: dict[int, int]) -> None:
        """One finished read; AssertionError if records have vanished since the read before."""
        for partition, at in newest.items():
            earlier = self.seen.setdefault(partition, [])
            if earlier and at < earlier[-1][0]:
                raise AssertionError(f"records of partition {partition} were visible, and are not any more")
            earlier.append((at, read_at))

    def wait_of(self, partition: int, at: int) -> int | None:
        """How long after a record a reader saw it; None if no reader did."""
        reads = self.seen.get(partition, [])
        first = bisect.bisect_left(reads, (at, 0))
        return reads[first][1] - at if first < len(reads) else None


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Each rate and way of reading for itself, with a topic and a table of its own."""
    report = Report("stream-latency", rates=options.rates, seconds=options.latency_seconds, max_lag_s=MAX_LAG_SECONDS)
    with stage(scratch, options.memory) as running:
        for rate in options.rates:
            for way in AIMS:
                _measure(running, way, rate, options, report)
    return report


def _measure(running: Stage, way: str, rate: float, options: argparse.Namespace, report: Report) -> None:
    count = int(rate * options.latency_seconds)
    topic = running.create_topic(options.partitions)
    table = running.create_table(topic, properties={"firn.log.max-lag": f"{MAX_LAG_SECONDS:.0f} s"})
    readers: dict[str, Callable[[], DataFrame]] = {
        "log": lambda: firn.spark.read(table, running.spark, log=True),
        "table": lambda: running.spark.table(table),
    }
    sightings, reads = Sightings(), list[float]()
    with (
        producing(running.brokers, topic, options.partitions, options.keys, count, rate) as producer,
        _draining(running, table) as drains,
    ):
        last = _last_records(running, topic, producer)
        while True:
            began = time.monotonic()
            newest = _read(readers[way](), options.partitions)
            sightings.add(time.time_ns() // 1_000_000, newest)
            reads.append(time.monotonic() - began)
            if producer.ended.is_set() and newest == last():
                break
    upserts = Upserts(options.keys)
    for _ in upserts.draw(count):
        pass
    running.check(table, upserts.totals(), readers[way]())
    waits = _list_waits(running, topic, sightings, skip=0.2)
    report.line(
        "visible",
        way=way,
        rate=rate,
        records=len(waits),
        **describe(waits),
        aim=AIMS[way],
        reads=len(reads),
        median_read_s=round(sorted(reads)[len(reads) // 2], 2),
        drains=len(drains),
        slowest_drain_s=round(max(drains), 1),
    )


def describe(waits: Sequence[int]) -> dict[str, float]:
    """Percentiles in seconds, of ms."""
    ordered = sorted(waits)
    return {f"p{p}_s": round(ordered[min(len(ordered) * p // 100, len(ordered) - 1)] / 1e3, 2) for p in (50, 95, 99)}


@contextmanager
def _draining(running: Stage, table: str) -> Iterator[list[float]]:
    """A thread that drains every two seconds, or again at once if a drain takes longer; gives their seconds."""
    stopping, drains, failures = threading.Event(), list[float](), list[BaseException]()

    def follow() -> None:
        try:
            while not stopping.is_set():
                began = time.monotonic()
                drain(table, running.spark)
                drains.append(time.monotonic() - began)
                stopping.wait(max(0.0, MAX_LAG_SECONDS - drains[-1]))
        except BaseException as error:  # noqa: BLE001 -- it is raised by the thread that waits
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield drains
    finally:
        stopping.set()
        thread.join()
    for failure in failures:
        raise failure


def _read(rows: DataFrame, partitions: int) -> dict[int, int]:
    """The time of the newest record of each partition that the reader sees."""
    newest = rows.groupBy((F.col("id") % partitions).alias("p")).agg(F.max("at"))
    return {int(partition): int(at) for partition, at in newest.collect()}


def _last_records(running: Stage, topic: str, producer: Producer) -> Callable[[], dict[int, int]]:
    """A function for what a reader sees who has all records, which asks the topic once."""
    known: list[dict[int, int]] = []
    deadline = producer.began + producer.count / producer.rate + LAST_SECONDS

    def last() -> dict[int, int]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no reader sees the last records of {topic}, {LAST_SECONDS:.0f} s after they were due")
        if not known:
            known.append(dict(_list_times(running, topic).groupBy("partition").agg(F.max("at")).collect()))  # type: ignore[arg-type]
        return known[0]

    return last


def _list_times(running: Stage, topic: str) -> DataFrame:
    value = F.from_json(F.col("value").cast("string"), COLUMNS).alias("v")
    return running.read_topic(topic).select("partition", value).select("partition", F.col("v.at").alias("at"))


def _list_waits(running: Stage, topic: str, sightings: Sightings, skip: float) -> list[int]:
    """Of all records but the first share of them, in ms."""
    times = sorted((int(at), int(partition)) for partition, at in _list_times(running, topic).collect())
    waits = [sightings.wait_of(partition, at) for at, partition in times[int(len(times) * skip) :]]
    if any(wait is None for wait in waits):
        raise AssertionError(f"records of {topic} were never seen")
    return [wait for wait in waits if wait is not None]
