"""The systems of `sustained`: what brings a topic into a table, and a reader in other processes."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.hudi_spark import hudi_spark
from bench.running import RunningServer, running_optimizer, running_server, running_spark, session_on
from bench.stream.records import COLUMNS, Totals
from firn.embedded.jars import fetch_jar_set
from firn.spark.jars import fetch
from tests.integration.engines.flink import BATCH, RUNTIME, STREAMING, Flink, Refused, Session, flink_beside
from tests.integration.engines.spark import Refused as RefusedBySpark
from tests.integration.engines.spark import SparkBeside
from tests.integration.streams.jars import FLINK_CONNECTOR

QUESTION = "SELECT count(*), sum(qty), sum(amount), max(`at`) FROM {}"
PLANNING = {"FIRN_BACKGROUND__PLAN_SECONDS": "2"}
PENDING_AGE = "30 s"
MERGE_SECONDS = 180
HERE = Path(__file__).parent


class NotYet(Exception):
    """The table cannot be read: nothing is in it."""


@dataclass(frozen=True)
class System:
    """A system that brings a topic into a table."""

    pids: list[int]
    """The processes that write and merge; their descendants are counted too."""
    ask: Callable[[], list[Any]]
    """The row that answers QUESTION; NotYet before the first commit."""
    settle: Callable[[], None] = lambda: None
    """Wait until the first rows are merged, where that is no part of writing."""
    describe: Callable[[], dict[str, object]] = dict
    """What happened beside the writing."""

    def read(self) -> tuple[Totals, int]:
        """Rows and sums that a reader sees now, and the milliseconds at which the newest of its records was made."""
        rows, qty, amount, newest = self.ask()
        if not rows:
            raise NotYet
        return Totals(int(rows), int(qty), int(amount)), int(newest)


@contextmanager
def firn_in_spark(scratch: Path, brokers: str, topic: str, options: argparse.Namespace) -> Iterator[System]:
    """As `firn`, with drains in Spark."""
    with firn(scratch, brokers, topic, options, engine="spark") as system:
        yield system


@contextmanager
def firn(
    scratch: Path, brokers: str, topic: str, options: argparse.Namespace, *, engine: str = "auto"
) -> Iterator[System]:
    """A stream and merges in one optimizer, as a user runs them; the reader asks the view `merged`."""
    with (
        running_server(scratch / "firn", PLANNING) as server,
        running_spark(scratch, memory=options.memory) as spark,
    ):
        session = session_on(spark, server)
        session.sql("CREATE NAMESPACE lake.db")
        properties = {
            "firn.primary-key": "id",
            "firn.log.topic": topic,
            "firn.log.brokers": brokers,
            "firn.log.format": "firn-json",
            "firn.log.max-lag": f"{2 * options.every} s",  # a stream commits every half of it
            "firn.merge.max-pending-age": PENDING_AGE,
        }
        assignments = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        session.sql(f"CREATE TABLE lake.db.orders ({COLUMNS}) USING iceberg TBLPROPERTIES ({assignments})")
        with running_optimizer(server, scratch, memory=options.memory, streams=1, engine=engine) as processes:
            yield System(
                [server.pid, processes()[0]],
                lambda: list(session.sql(QUESTION.format("lake.db.orders.merged")).collect()[0]),
                lambda: _wait_for_a_merge(server),
                lambda: {"jobs": _count_jobs(server)},
            )


def _count_jobs(server: RunningServer) -> Counter[str]:
    return Counter(job.kind for job in server.client.tables["db.orders"].jobs(None) if job.status == "succeeded")


def _wait_for_a_merge(server: RunningServer) -> None:
    """Until the first rows are in base; TimeoutError when they do not come there."""
    deadline = time.monotonic() + MERGE_SECONDS
    while not _count_jobs(server)["merge"]:
        if time.monotonic() > deadline:
            raise TimeoutError("the optimizer has merged nothing")
        time.sleep(1)


@contextmanager
def paimon(scratch: Path, brokers: str, topic: str, options: argparse.Namespace) -> Iterator[System]:
    """Paimon's sink in Flink, which compacts as it writes."""
    catalog = f"'type' = 'paimon', 'warehouse' = 'file://{scratch}/lake', 'cache-enabled' = 'false'"
    jar = next(fetch_jar_set(HERE / "paimon.xml").glob("*.jar"))
    with _in_flink(scratch, [jar], catalog, "'bucket' = '2'", brokers, topic, options) as system:
        yield system


@contextmanager
def iceberg(scratch: Path, brokers: str, topic: str, options: argparse.Namespace) -> Iterator[System]:
    """Iceberg's upserts in Flink: equality deletes, without compaction."""
    catalog = f"'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'file://{scratch}/lake'"
    catalog += ", 'cache-enabled' = 'false'"
    properties = "'format-version' = '2', 'write.upsert.enabled' = 'true'"
    with _in_flink(scratch, [], catalog, properties, brokers, topic, options) as system:
        yield system


@contextmanager
def _in_flink(
    scratch: Path,
    jars: list[Path],
    catalog: str,
    properties: str,
    brokers: str,
    topic: str,
    options: argparse.Namespace,
) -> Iterator[System]:
    """One Flink that writes, one that reads."""
    fetch(RUNTIME)
    jars = [fetch(FLINK_CONNECTOR), *jars]
    for name in ("write", "read"):
        (scratch / name).mkdir()
    with (
        flink_beside(scratch / "write", *jars, heap=options.memory) as writer,
        flink_beside(scratch / "read", *jars, heap=options.memory) as reader,
    ):
        writing = _open(writer, STREAMING, catalog, {"execution.checkpointing.interval": f"{options.every} s"})
        columns = COLUMNS.replace("day ", "`day` ").replace("at ", "`at` ")
        writing.sql(
            "CREATE DATABASE IF NOT EXISTS lake.db",
            f"CREATE TABLE lake.db.orders ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ({properties})",
            f"CREATE TEMPORARY TABLE records ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', "
            f"'properties.bootstrap.servers' = '{brokers}', 'properties.group.id' = 'bench', "
            "'scan.startup.mode' = 'earliest-offset', 'format' = 'json')",
        )
        reading = _open(reader, BATCH, catalog, {})
        job = writing.start("INSERT INTO lake.db.orders SELECT * FROM records")
        yield System([writer.pid], lambda: _ask_flink(reading))
        job.client.cancel().get()


def _open(flink: Flink, mode: str, catalog: str, more: Mapping[str, str]) -> Session:
    both = {"parallelism.default": "2", "table.exec.resource.default-parallelism": "2"}
    session = flink.session(mode, {**both, "pipeline.max-parallelism": "128", **more})
    session.sql(f"CREATE CATALOG lake WITH ({catalog})")
    return session


def _ask_flink(session: Session) -> list[Any]:
    try:
        return session.rows(QUESTION.format("lake.db.orders"))[0]
    except Refused as error:
        raise NotYet(str(error)) from error


@contextmanager
def hudi(scratch: Path, brokers: str, topic: str, options: argparse.Namespace) -> Iterator[System]:
    """Hudi's streaming sink in Spark 3.5, merge on read with a bucket index, which compacts beside its writes."""
    table = scratch / "orders"
    with (
        hudi_spark(scratch / "write.log", options.memory) as writer,
        hudi_spark(scratch / "read.log", options.memory) as reader,
    ):
        source = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}
        sink = {**HUDI, "checkpointLocation": f"{scratch}/checkpoint"}
        writer.run(_HUDI_WRITES.format(source=source, sink=sink, columns=COLUMNS, every=options.every, path=str(table)))
        yield System([writer.process.pid], lambda: _ask_hudi(reader, table))


HUDI = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.precombine.field": "_offset",  # within a batch, nothing else orders records of a key
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.datasource.compaction.async.enable": "true",
    "hoodie.compact.inline.max.delta.commits": "3",  # about as often as Firn merges
}
_HUDI_WRITES = """
from pyspark.sql import functions as F
records = spark.readStream.format("kafka").options(**{source!r}).load()
value = F.from_json(F.col("value").cast("string"), {columns!r}).alias("v")
rows = records.select(value, F.col("offset").alias("_offset")).select("v.*", "_offset")
writer = rows.writeStream.format("hudi").options(**{sink!r}).outputMode("append")
writer.trigger(processingTime="{every} seconds").start({path!r})
"""
_HUDI_READS = """
spark.read.format("hudi").load({path!r}).createOrReplaceTempView("orders")
answer = list(spark.sql({question!r}).collect()[0])
"""


def _ask_hudi(reader: SparkBeside, table: Path) -> list[Any]:
    try:
        row: list[Any] = reader.run(_HUDI_READS.format(path=str(table), question=QUESTION.format("orders")))
    except RefusedBySpark as error:
        raise NotYet(str(error)) from error
    return row


SYSTEMS: dict[str, Callable[[Path, str, str, argparse.Namespace], AbstractContextManager[System]]] = {
    "firn": firn,
    "firn-in-spark": firn_in_spark,
    "paimon": paimon,
    "iceberg": iceberg,
    "hudi": hudi,
}
