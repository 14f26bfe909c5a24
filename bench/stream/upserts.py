"""Upserts that come all the time: CPU seconds of drains and merges for each million of records."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import TreeStopwatch
from bench.report import Report
from bench.running import running_optimizer
from bench.stream.producer import Producer, producing
from bench.stream.records import Totals, Upserts
from bench.stream.stage import PLANNING, Stage, stage
from firn.spark.log_drain import drain

JOBS_SECONDS = 300


@dataclass
class Follower:
    """Drains a table every few seconds; `drains` has the seconds of each drain."""

    spark: SparkSession
    table: str
    every: float
    producer: Producer
    drains: list[float] = field(default_factory=list)

    def follow(self, until: Callable[[], bool]) -> None:
        """Drain until the condition holds, and once more if the producer has ended since the drain began."""
        while True:
            began, is_last = time.monotonic(), self.producer.ended.is_set()
            drain(self.table, self.spark)
            self.drains.append(time.monotonic() - began)
            if is_last or until():
                return
            time.sleep(max(0.0, began + self.every - time.monotonic()))


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """A drain every few seconds, and an optimizer that merges as the server plans it; then two reads."""
    count = int(options.rate * options.seconds)
    sizes = {"rate": options.rate, "seconds": options.seconds, "keys": options.keys, "partitions": options.partitions}
    report = Report("stream-upserts", **sizes, every_s=options.every, warm_s=options.warm_seconds)
    upserts = Upserts(options.keys)
    for _ in upserts.draw(count):
        pass
    with (
        stage(scratch, options.memory, PLANNING) as running,
        running_optimizer(running.server, scratch, memory=options.optimizer_memory),
    ):
        topic = running.create_topic(options.partitions)
        table = running.create_table(topic, properties={"firn.merge.max-pending-age": options.pending_age})
        with producing(running.brokers, topic, options.partitions, options.keys, count, options.rate) as producer:
            follower = Follower(running.spark, table, options.every, producer)
            _measure(running, follower, producer, options, report)
        _read(running, table, upserts.totals(), report)
        running.check_drained(table, count)
        jobs = [job.kind for job in running.server.client.tables[table.removeprefix("lake.")].jobs(None)]
        drains = {"drains": len(follower.drains), "slowest_drain_s": round(max(follower.drains), 1)}
        report.line("state", **drains, jobs={kind: jobs.count(kind) for kind in sorted(set(jobs))})
    return report


def _measure(
    running: Stage, follower: Follower, producer: Producer, options: argparse.Namespace, report: Report
) -> None:
    """Report what the records cost that are not in the table when everything has warmed up."""
    clock = TreeStopwatch([os.getpid()], without=[producer.process.pid])
    follower.follow(lambda: producer.produced >= min(options.warm_seconds * options.rate, producer.count // 2))
    records = producer.count - _count_drained(running, follower.table)

    def follow_and_merge() -> None:
        follower.follow(lambda: False)
        _wait_for_jobs(running, follower.table)

    cost, _ = clock.cost(follow_and_merge)
    per_million = round(cost.cpu / records * 1e6, 1) if records else None
    report.line("upserts", records=records, **cost.to_json(), cpu_s_per_million=per_million)


def _read(running: Stage, table: str, expected: Totals, report: Report) -> None:
    """What reads of the table cost then, the second with everything warm."""
    for number in (1, 2):
        cost, _ = running.clock.cost(lambda: running.check(table, expected))
        report.line("read", number=number, rows=expected.rows, **cost.to_json())


def _count_drained(running: Stage, table: str) -> int:
    """The records that drains have brought; the topic of a benchmark has no gaps."""
    log = running.server.client.tables[table.removeprefix("lake.")].log.show()
    return sum(log.start.values())


def _wait_for_jobs(running: Stage, table: str) -> None:
    """Wait while a job of the table runs or is queued."""
    handle = running.server.client.tables[table.removeprefix("lake.")]
    deadline = time.monotonic() + JOBS_SECONDS
    while any(job.status.is_active for job in handle.jobs(None)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs of {table} run for more than {JOBS_SECONDS} s")
        time.sleep(1)
