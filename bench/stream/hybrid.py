"""What a read with the log costs, against a read of the view `merged` and a read of the records that wait.

The table has rows in base, changes that no merge has brought there yet, and a topic with records that no drain has
brought yet. All reads take turns. Spark writes what it reads nowhere; in Arrow each read ends with a table. Without
Spark nothing but the read with the log merges, so there the peer reads the image, which the server has merged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

import firn.spark
from bench.measure import Cost, median, ratio
from bench.report import Report
from bench.running import running_optimizer
from bench.stream.records import COLUMNS, SECONDS, Totals, Upserts, produce
from bench.stream.stage import Stage, stage
from firn.logs import plan_tail

GOAL = 1.3
_PENDING, _WAITING = 43, 44
"""Seeds of the changes that wait for a merge, and of the records that wait for a drain."""


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """What only this part knows."""
    group.add_argument("--pending", type=int, default=10_000, help="changes without a merge (default: %(default)s)")
    group.add_argument("--waiting", type=int, default=40_000, help="records without a drain (default: %(default)s)")


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """All reads in turns."""
    names = ("keys", "pending", "waiting", "partitions", "rounds", "memory")
    report = Report("stream-hybrid", **{name: getattr(options, name) for name in names})
    with stage(scratch, options.memory) as running:
        table = _Table(running, scratch, options)
        reads = table.list_reads()
        table.check()
        costs: dict[str, list[Cost]] = {name: [] for name in reads}
        for number in range(-options.warm_rounds, options.rounds):
            for name in list(reads) if number % 2 else list(reads)[::-1]:
                cost, _ = running.clock.cost(reads[name])
                report.line("round", round=number, read=name, **cost.to_json())
                costs[name] += [cost] if number >= 0 else []
    medians = {name: median(each) for name, each in costs.items()}
    for engine, table_read in (("spark", "merged"), ("arrow", "image")):
        both = medians[f"{engine} {table_read}"] + medians[f"{engine} records"]
        hybrid = medians[f"{engine} with the log"]
        report.line("hybrid", engine=engine, times_both=ratio(hybrid, both), goal=GOAL, **hybrid.to_json())
    return report


class _Table:
    """A table in three parts: base, changes, and records of its topic."""

    def __init__(self, running: Stage, scratch: Path, options: argparse.Namespace) -> None:
        self.running, self.options = running, options
        self.client = running.server.client
        first = Upserts(options.keys, unique=True)
        self.topic = running.fill_topic(first, options.keys, options.partitions)
        self.table = running.create_table(self.topic)
        handle = self.client.tables[self.table.partition(".")[2]]
        handle.drain()
        with running_optimizer(running.server, scratch, memory=options.memory):
            job = self.client.jobs.wait(handle.start_job("merge").id)
        if job.status != "succeeded":
            raise RuntimeError(f"the merge has {job.status}: {job.error}")
        self.drained = self._send(_PENDING, options.pending, first.rows)
        handle.drain()
        log = handle.log.show()
        self.starts = plan_tail(log, log.position).start
        self.produced = self._send(_WAITING, options.waiting, dict(self.drained.rows))

    def _send(self, seed: int, count: int, rows: dict[int, tuple[int, int]]) -> Upserts:
        upserts = Upserts(self.options.keys, seed=seed, rows=rows)
        produce(self.running.brokers, self.topic, self.options.partitions, upserts.draw(count))
        return upserts

    def list_reads(self) -> dict[str, Callable[[], object]]:
        """Each read of a round, by its name."""
        spark, table = self.running.spark, self.table
        return {
            "spark with the log": lambda: _write_nowhere(firn.spark.read(table, spark, log=True)),
            "spark merged": lambda: _write_nowhere(spark.table(f"{table}.merged")),
            "spark records": lambda: _write_nowhere(self._parse_in_spark()),
            "arrow with the log": lambda: self.client.scan(table, log=True).to_arrow(),
            "arrow image": lambda: self.client.scan(table).to_arrow(),
            "arrow records": self._parse_in_python,
        }

    def _parse_in_spark(self) -> DataFrame:
        starts = {self.topic: {str(number): start for number, start in self.starts.items()}}
        records = self.running.read_topic(self.topic, startingOffsets=json.dumps(starts))
        return records.select(F.from_json(F.col("value").cast("string"), COLUMNS).alias("v")).select("v.*")

    def _parse_in_python(self) -> pa.Table:
        rows, left = list[dict[str, Any]](), self.options.waiting
        consumer = Consumer({"bootstrap.servers": self.running.brokers, "group.id": "bench"})
        try:
            consumer.assign([TopicPartition(self.topic, number, at) for number, at in self.starts.items()])
            while left:
                messages = consumer.consume(min(left, 10_000), SECONDS)
                if not messages:
                    raise AssertionError(f"the topic lacks {left} of {self.options.waiting} records")
                rows += [json.loads(message.value()) for message in messages]
                left -= len(messages)
        finally:
            consumer.close()
        return pa.Table.from_pylist(rows)

    def check(self) -> None:
        """Refuse to report on wrong answers, of both engines."""
        spark, with_log, merged = self.running.spark, self.produced.totals(), self.drained.totals()
        firn.spark.read(self.table, spark, log=True).createOrReplaceTempView("with_log")
        self.running.check("with_log", with_log)
        self.running.check(f"{self.table}.merged", merged)
        for log, expected in ((True, with_log), (False, merged)):
            rows = self.client.scan(self.table, log=log).to_arrow()
            totals = Totals(len(rows), pc.sum(rows["qty"]).as_py(), pc.sum(rows["amount"]).as_py())
            if totals != expected:
                raise AssertionError(f"the scan with log={log} has {totals}, but the records add up to {expected}")
        for reader, count in (("Spark", self._parse_in_spark().count()), ("Python", len(self._parse_in_python()))):
            if count != self.options.waiting:
                raise AssertionError(f"{reader} has read {count} of {self.options.waiting} records")


def _write_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
