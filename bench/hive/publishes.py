"""Giving Hive what was merged, against an INSERT OVERWRITE of the same rows."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench import keyed
from bench.hive.stage import Stage, stage
from bench.hive.tables import HiveFiles, generate
from bench.measure import Cost, Stopwatch, forget_peak, median, peak_mib, ratio
from bench.report import Report
from bench.running import jvm_pid
from bench.working import Working, working
from firn.protocol.answers.jobs import JobOut
from firn.spark.write import upsert

NAME = "publish"
FIRN, BY_HAND = "orders", "by_hand"
_CHECK = "SELECT count(*), count(DISTINCT day), sum(c0), sum(c1) FROM {table}"


@dataclass(frozen=True, slots=True)
class Contest:
    """A keyed table over one Hive table, and another Hive table that is overwritten from its base."""

    beside: Stage
    spark: SparkSession
    optimizer: Working
    clock: Stopwatch

    def change(self, number: int) -> None:
        """One row of every partition changes, and is merged."""
        base = self.spark.table(f"lake.hive.{FIRN}.base")
        upsert(base.where("c0 = 7").withColumn("c1", F.lit(1_000 + number)), f"lake.hive.{FIRN}")
        self.optimizer.run(self.beside.server.client.tables[f"hive.{FIRN}"].start_job("merge"))

    def publish(self) -> tuple[Cost, dict[str, object]]:
        """From the request to the job's end."""

        def published() -> JobOut:
            return self.optimizer.run(
                JobOut.model_validate(self.beside.server.client.hive.publish(f"hive.{FIRN}")["job"])
            )

        cost, job = self.clock.cost(published)
        return cost, dict(job.result)

    def by_hand(self) -> Cost:
        """What a user would write."""
        columns = ", ".join(self.spark.table(f"spark_catalog.hive.{BY_HAND}").columns)
        rows = f"SELECT {columns} FROM lake.hive.{FIRN}.base"
        over = f"INSERT OVERWRITE spark_catalog.hive.{BY_HAND} PARTITION (day) {rows}"
        return self.clock.cost(lambda: self.spark.sql(over).collect())[0]

    def check(self) -> None:
        """All read the same."""
        tables = [f"lake.hive.{FIRN}", f"spark_catalog.hive.{FIRN}", f"spark_catalog.hive.{BY_HAND}"]
        for table in tables[1:]:
            self.spark.sql(f"REFRESH TABLE {table}")
        expected, *others = (tuple(self.spark.sql(_CHECK.format(table=table)).collect()[0]) for table in tables)
        for table, totals in zip(tables[1:], others, strict=True):
            if totals != expected:
                raise AssertionError(f"{table} reads as {totals}, not as {expected}")


def run(ends: ExitStack, scratch: Path, options: argparse.Namespace) -> Report:
    """A round for warming up, then those that count, both sides in turns."""
    count = options.partitions or 100
    report = Report("hive-publish", partitions=count, rows=options.rows, columns=20, rounds=options.rounds)
    contest = _contest(ends, scratch, options.memory, count, options.rows)
    costs: dict[str, list[Cost]] = {"firn": [], "insert overwrite": []}
    for number in range(-1, options.rounds):
        contest.change(number)
        forget_peak(contest.beside.server.pid)
        if number % 2:
            by_hand, (firn, result) = contest.by_hand(), contest.publish()
        else:
            (firn, result), by_hand = contest.publish(), contest.by_hand()
        if result["switched"] != count:
            raise AssertionError(f"{result['switched']} of {count} partitions were switched")
        contest.check()
        if number < 0:
            continue
        mib = peak_mib(contest.beside.server.pid)
        costs["firn"].append(firn)
        costs["insert overwrite"].append(by_hand)
        report.line("round", number=number, firn=firn.to_json(), by_hand=by_hand.to_json(), mib=mib)
    for way, costs_of_way in costs.items():
        cost = median(costs_of_way)
        report.line("way", way=way, times_by_hand=ratio(cost, median(costs["insert overwrite"])), **cost.to_json())
    return report


def _contest(ends: ExitStack, scratch: Path, memory: str, partitions: int, rows: int) -> Contest:
    beside = stage(ends, scratch)
    spark = beside.spark(ends, memory)
    for name in (FIRN, BY_HAND):
        beside.add_table(name, _files(scratch / name, partitions, rows))
    beside.upgrade(f"hive.{FIRN}", "c0", "day")
    clock = Stopwatch([beside.server.pid, jvm_pid(spark)])
    return Contest(beside, spark, working(keyed.Stage(beside.server, spark, clock)), clock)


def _files(directory: Path, partitions: int, rows: int) -> HiveFiles:
    return generate(directory, files=partitions, partitions=partitions, rows_per_file=rows)
