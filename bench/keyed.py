"""The orders as a keyed table of Firn, and how they are read: for the benchmarks of reads and merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import Cost, Stopwatch
from bench.orders import COLUMNS, NAMES, Orders, Totals
from bench.running import RunningServer, jvm_pid, running_server, running_spark, session_on
from firn.spark.write import delete, upsert

NUMBERS = count()
# Every column of every row is looked at: xor of a hash of each.
SCAN = f"SELECT count(*), bit_xor(xxhash64({', '.join(NAMES)})) FROM {{table}}"
COUNT = "SELECT count(*) FROM {table}"
AGGREGATE = "SELECT day, count(*), sum(qty), sum(amount) FROM {table} GROUP BY day"
LOOKUP = "SELECT * FROM {table} WHERE id = 1000"
READS = {"scan": SCAN, "count": COUNT, "aggregate": AGGREGATE, "lookup": LOOKUP}


@dataclass(frozen=True, slots=True)
class Stage:
    """Server, session and clock of one benchmark; the clock counts the CPU seconds of Spark's JVM."""

    server: RunningServer
    spark: SparkSession
    clock: Stopwatch

    def keyed_table(self, orders: Orders, **properties: str) -> str:
        """A new keyed table that holds the initial rows in its base store; its name without the catalog."""
        name = f"db.orders{next(NUMBERS)}"
        self._create(f"lake.{name}", {"firn.primary-key": "id", **properties})
        self._load(f"lake.{name}.base", orders)
        return name

    def plain_table(self, orders: Orders) -> str:
        """A new plain v3 table with the same rows, for merging on read."""
        name = f"db.plain{next(NUMBERS)}"
        modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("merge", "update", "delete")}
        self._create(f"lake.{name}", {"format-version": "3", "write.parquet.compression-codec": "zstd", **modes})
        self._load(f"lake.{name}", orders)
        return name

    def table_of_small_files(self, orders: Orders, files: int) -> str:
        """A new plain table with the same rows in so many files, unpartitioned, as one write left them."""
        name = f"db.small{next(NUMBERS)}"
        self.spark.sql(f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg")
        self.spark.read.parquet(str(orders.load)).repartition(files, "id").writeTo(f"lake.{name}").append()
        return name

    def write_batch(self, name: str, orders: Orders, number: int = 0) -> Cost:
        """Upsert and delete what a batch says, in two commits."""

        def write() -> None:
            upsert(self.spark.read.parquet(str(orders.upserts[number])), f"lake.{name}")
            delete(self.spark.read.parquet(str(orders.deletes[number])).select("id", "day"), f"lake.{name}")

        return self.clock.cost(write)[0]

    def read(self, query: str, table: str) -> tuple[Cost, list[tuple[object, ...]]]:
        """Run one of the READS; loading and planning the table count."""
        statement = READS[query].format(table=f"lake.{table}")
        cost, rows = self.clock.cost(lambda: self.spark.sql(statement).collect())
        return cost, sorted(tuple(row) for row in rows)

    def check(self, table: str, expected: Totals) -> None:
        """Refuse to report on wrong answers."""
        _, days = self.read("aggregate", table)
        totals = Totals(*(int(sum(part)) for part in _summed(days)))
        if totals != expected:
            raise AssertionError(f"{table} holds {totals}, but the batches add up to {expected}")

    def _create(self, name: str, properties: dict[str, str]) -> None:
        assignments = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {name} ({COLUMNS}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({assignments})"
        )

    def _load(self, name: str, orders: Orders) -> None:
        self.spark.read.parquet(str(orders.load)).writeTo(name).append()


def _summed(days: list[tuple[object, ...]]) -> Iterator[list[float]]:
    columns = [[float(str(value)) for value in column] for column in list(zip(*days, strict=True))[1:]]
    yield columns[0]
    yield columns[1]
    yield [amount * 64 for amount in columns[2]]


@contextmanager
def stage(scratch: Path, memory: str, environment: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Start both and make the namespace; the server with these settings."""
    with running_server(scratch / "firn", environment) as server, running_spark(scratch, memory=memory) as spark:
        session = session_on(spark, server)
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        yield Stage(server, session, Stopwatch([jvm_pid(spark)]))
