"""Milliseconds per file of making Hive's Parquet files an Iceberg table."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from bench.hive.stage import Stage, stage
from bench.hive.tables import HiveFiles, columns_sql, generate
from bench.measure import Cost, Stopwatch, median, ratio
from bench.report import Report
from bench.running import jvm_pid

NAME = "upgrade"
WAYS = ("firn", "add_files", "snapshot", "ctas", "pyiceberg")


@dataclass(frozen=True, slots=True)
class Contest:
    """Everybody who makes a table of the files, each ready to begin."""

    stage: Stage
    spark: Callable[[], SparkSession]
    """The session, started when the first way asks for it."""
    pyiceberg: SqlCatalog

    def firn(self, files: HiveFiles, name: str) -> tuple[Cost, int | None]:
        """Upgrade in place."""
        cost, mib = self.stage.upgraded(self._hive_table(files, name))
        read = self.stage.server.client.scan(f"lake.hive.{name}", columns=["c0", "day"]).to_arrow()
        _compare(name, (len(read) - read["c0"].null_count, pc.count_distinct(read["day"]).as_py()), files)
        return cost, mib

    def add_files(self, files: HiveFiles, name: str) -> tuple[Cost, int | None]:
        """Spark's procedure, its table made before; it is given the directory."""
        table = f"hadoop.db.{name}"
        self.spark().sql(f"CREATE TABLE {table} ({columns_sql()}, day STRING) USING iceberg PARTITIONED BY (day)")
        source = f"`parquet`.`{files.directory}`"
        return self._spark(
            f"CALL hadoop.system.add_files(table => '{table}', source_table => '{source}')", table, files
        )

    def snapshot(self, files: HiveFiles, name: str) -> tuple[Cost, int | None]:
        """Spark's procedure, given the Hive table."""
        table, source = f"hadoop.db.{name}", f"spark_catalog.{self._hive_table(files, name)}"
        call = f"CALL hadoop.system.snapshot(source_table => '{source}', table => '{table}')"
        return self._spark(call, table, files)

    def ctas(self, files: HiveFiles, name: str) -> tuple[Cost, int | None]:
        """All rows are read and written; what comes out are other files."""
        table, source = f"hadoop.db.{name}", f"spark_catalog.{self._hive_table(files, name)}"
        statement = f"CREATE TABLE {table} USING iceberg PARTITIONED BY (day) AS SELECT * FROM {source}"
        return self._spark(statement, table, files)

    def pyiceberg_files(self, files: HiveFiles, name: str) -> tuple[Cost, int | None]:
        """PyIceberg's `add_files`, its table made before; it is given the list of the files.

        It cannot take a partition's value from a directory's name: its table is unpartitioned and has no `day`, which
        spares it work.
        """
        table = self.pyiceberg.create_table(f"db.{name}", schema=pq.read_schema(files.paths[0]))
        paths = [str(path) for path in files.paths]
        cost, _ = Stopwatch([os.getpid()]).cost(lambda: table.add_files(paths))
        if table.scan().count() != files.rows:
            raise AssertionError(f"PyIceberg counts {table.scan().count()} rows of {files.rows}")
        return cost, None

    def _hive_table(self, files: HiveFiles, name: str) -> str:
        return self.stage.add_table(name, files)

    def _spark(self, statement: str, table: str, files: HiveFiles) -> tuple[Cost, int | None]:
        spark = self.spark()
        cost, _ = Stopwatch([jvm_pid(spark)]).cost(lambda: spark.sql(statement).collect())
        self._check(table, files)
        return cost, None

    def _check(self, table: str, files: HiveFiles) -> None:
        """Refuse to report on a table that does not read as the files do."""
        counted = self.spark().sql(f"SELECT count(c0), count(DISTINCT day) FROM {table}").collect()[0]
        _compare(table, tuple(counted), files)


def _compare(table: str, counted: tuple[int, ...], files: HiveFiles) -> None:
    if counted != (files.rows, files.partitions):
        raise AssertionError(f"{table} reads as {counted}, not as {(files.rows, files.partitions)}")


def run(ends: ExitStack, scratch: Path, options: argparse.Namespace) -> Report:
    """A small round for warming up, then those that count, each beginning with another way."""
    count, partitions = options.files or 5_000, options.partitions or 500
    report = Report("hive-upgrade", files=count, partitions=partitions, columns=20, rounds=options.rounds)
    contest = _contest(ends, scratch, options.memory)
    ways: dict[str, Callable[[HiveFiles, str], tuple[Cost, int | None]]] = {
        "firn": contest.firn,
        "add_files": contest.add_files,
        "snapshot": contest.snapshot,
        "ctas": contest.ctas,
        "pyiceberg": contest.pyiceberg_files,
    }
    chosen = [way for way in WAYS if way in options.ways]
    few = generate(scratch / "few", files=min(20, count), partitions=min(4, partitions))
    files = generate(scratch / "files", files=count, partitions=partitions)
    for way in chosen:
        ways[way](few, f"warm_{way}")
    costs: dict[str, list[Cost]] = defaultdict(list)
    for number in range(options.rounds):
        at = number % len(chosen)
        for way in chosen[at:] + chosen[:at]:
            cost, mib = ways[way](files, f"round{number}_{way}")
            costs[way].append(cost)
            held = {} if mib is None else {"mib": mib}
            report.line("round", number=number, way=way, **cost.to_json(), **held)
    for way, costs_of_way in costs.items():
        cost = median(costs_of_way)
        times = {"times_firn": ratio(cost, median(costs["firn"]))} if "firn" in costs else {}
        report.line("way", way=way, ms_per_file=round(cost.wall * 1000 / count, 3), **times, **cost.to_json())
    return report


def _contest(ends: ExitStack, scratch: Path, memory: str) -> Contest:
    beside = stage(ends, scratch)
    (scratch / "pyiceberg").mkdir()
    database, warehouse = scratch / "pyiceberg" / "catalog.db", (scratch / "pyiceberg").as_uri()
    pyiceberg = SqlCatalog("bench", uri=f"sqlite:///{database}", warehouse=warehouse)
    pyiceberg.create_namespace("db")
    return Contest(beside, cache(lambda: beside.spark(ends, memory)), pyiceberg)
