"""Milliseconds per file of making Hive's Parquet files an Iceberg table, without rewriting them.

    python -m bench.upgrade
    python -m bench.upgrade --files 500 --partitions 50 --rounds 2

Firn upgrades a table of a real Hive Metastore: from the request to the operation's end, checks, directory listings and
the metastore's answers included. Spark's `add_files` procedure is given the table's directory, PyIceberg's `add_files`
the list of the files. All three in turns, in rounds, on the same files. PyIceberg cannot take a partition's value from
a directory's name: its table is unpartitioned and reads no `day`, which spares it work.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from bench.hivefiles import HiveFiles, add_hive_table, columns_sql, generate
from bench.measure import Cost, Stopwatch, median, ratio
from bench.report import Report
from bench.running import RunningServer, jvm_pid, running_server, running_spark, session_on
from firn.embedded.metastore import EmbeddedMetastore

POLL_SECONDS = 0.05
LONGEST_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that takes part."""

    server: RunningServer
    spark: SparkSession
    pyiceberg: SqlCatalog
    own_pid: int

    def firn(self, files: HiveFiles, name: str) -> Cost:
        """Upgrade in place."""
        add_hive_table(self.spark, f"hive.{name}", files)
        cost, _ = Stopwatch([self.server.pid]).cost(lambda: self._upgraded(f"hive.{name}"))
        _check(self.spark, f"lake.hive.{name}", files, days=files.partitions)
        return cost

    def spark_add_files(self, files: HiveFiles, name: str) -> Cost:
        """Spark's procedure, its table made before."""
        self.spark.sql(
            f"CREATE TABLE hadoop.db.{name} ({columns_sql()}, day STRING) USING iceberg PARTITIONED BY (day)"
        )
        call = f"CALL hadoop.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{files.directory}`')"
        cost, _ = Stopwatch([jvm_pid(self.spark)]).cost(lambda: self.spark.sql(call).collect())
        _check(self.spark, f"hadoop.db.{name}", files, days=files.partitions)
        return cost

    def pyiceberg_add_files(self, files: HiveFiles, name: str) -> Cost:
        """PyIceberg's method, its table made before."""
        table = self.pyiceberg.create_table(f"db.{name}", schema=pq.read_schema(files.paths[0]))
        paths = [str(path) for path in files.paths]
        cost, _ = Stopwatch([self.own_pid]).cost(lambda: table.add_files(paths))
        if table.scan().count() != files.rows:
            raise AssertionError(f"PyIceberg counts {table.scan().count()} rows of {files.rows}")
        return cost

    def _upgraded(self, name: str) -> None:
        """The client's own waiting looks too rarely for a stopwatch."""
        operation = self.server.client.hive.upgrade(name)
        give_up = time.monotonic() + LONGEST_SECONDS
        while not operation.status.is_final:
            if time.monotonic() > give_up:
                raise TimeoutError(f"the upgrade of {name} is still {operation.phase} after {LONGEST_SECONDS} s")
            time.sleep(POLL_SECONDS)
            operation = self.server.client.operations.get(operation.id)
        if operation.status != "succeeded":
            raise RuntimeError(f"the upgrade of {name} has {operation.status}: {operation.error}")


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when somebody's table does not hold what the files hold."""
    given = _arguments(argv)
    report = Report(
        "upgrade", files=given.files, partitions=given.partitions, columns=20, rounds=given.rounds, rows_per_file=200
    )
    with ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firn-bench-")))
        running = _stage(ends, scratch, given.memory)
        few = generate(scratch / "few", files=min(20, given.files), partitions=min(4, given.partitions))
        files = generate(scratch / "files", files=given.files, partitions=given.partitions)
        measure(running, report, few, files, given.rounds)
    report.save(given.out)
    return 0


def measure(running: Stage, report: Report, few: HiveFiles, files: HiveFiles, rounds: int) -> None:
    """A small round for warming up, then those that count, each beginning with another contender."""
    ways: dict[str, Callable[[HiveFiles, str], Cost]] = {
        "firn": running.firn,
        "pyiceberg": running.pyiceberg_add_files,
        "spark": running.spark_add_files,
    }
    for way in ways.values():
        way(few, "warm")
    costs: dict[str, list[Cost]] = defaultdict(list)
    for number in range(rounds):
        order = list(ways)
        for way_name in order[number % 3 :] + order[: number % 3]:
            cost = ways[way_name](files, f"round{number}")
            costs[way_name].append(cost)
            report.line("round", number=number, way=way_name, **cost.to_json())
    firn = median(costs["firn"])
    for way_name, found in costs.items():
        cost = median(found)
        per_file = round(cost.wall * 1000 / len(files.paths), 3)
        report.line("way", way=way_name, ms_per_file=per_file, times_firn=ratio(cost, firn), **cost.to_json())


def _stage(ends: ExitStack, scratch: Path, memory: str) -> Stage:
    metastore = ends.enter_context(EmbeddedMetastore(scratch / "metastore", port=0))
    server = ends.enter_context(running_server(scratch / "firn", {"FIRN_METASTORE": metastore.uri}))
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore.uri,
        "spark.sql.catalog.hadoop": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hadoop.type": "hadoop",
        "spark.sql.catalog.hadoop.warehouse": (scratch / "hadoop").as_uri(),
    }
    spark = ends.enter_context(running_spark(scratch, memory=memory, settings=settings))
    spark.sql("CREATE DATABASE hive")
    (scratch / "pyiceberg").mkdir()
    database, warehouse = scratch / "pyiceberg" / "catalog.db", (scratch / "pyiceberg").as_uri()
    pyiceberg = SqlCatalog("bench", uri=f"sqlite:///{database}", warehouse=warehouse)
    pyiceberg.create_namespace("db")
    return Stage(server, session_on(spark, server), pyiceberg, os.getpid())


def _check(spark: SparkSession, table: str, files: HiveFiles, *, days: int) -> None:
    """Refuse to report on a table that does not read as the files do."""
    counted = spark.sql(f"SELECT count(c0), count(DISTINCT day) FROM {table}").collect()[0]
    if tuple(counted) != (files.rows, days):
        raise AssertionError(f"{table} reads as {tuple(counted)} rows and days, not as {(files.rows, days)}")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.upgrade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
