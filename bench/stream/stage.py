"""A broker, a server and a Spark that reads topics, for all parts; tests replace the broker by their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.measure import TreeStopwatch
from bench.running import RunningServer, running_server, running_spark, session_on
from bench.stream.records import COLUMNS, Totals, Upserts, create_topic, produce
from firn.embedded.kafka import EmbeddedKafka
from firn.spark.jars import spark_conf

HEAP_MIB = 512
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Stage:
    """What all parts work with. The clock counts the CPU seconds of everything that this process has started."""

    server: RunningServer
    spark: SparkSession
    brokers: str
    clock: TreeStopwatch

    def fill_topic(self, upserts: Upserts, records: int, partitions: int) -> str:
        """A new topic with so many records; its name."""
        topic = f"orders{os.getpid()}-{next(_NUMBERS)}"
        create_topic(self.brokers, topic, partitions)
        produce(self.brokers, topic, partitions, upserts.draw(records))
        return topic

    def create_table(self, topic: str, *, partitioned: bool = False, **more: str) -> str:
        """A new keyed table with the topic as its log, and with `more` properties; its name with the catalog."""
        name = f"lake.db.drained{os.getpid()}_{next(_NUMBERS)}"
        properties = {
            "firn.primary-key": "id",
            "firn.log.topic": topic,
            "firn.log.brokers": self.brokers,
            "firn.log.format": "firn-json",
            **({"firn.key.scope": "partition"} if partitioned else {}),
            **more,
        }
        assignments = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        by = "PARTITIONED BY (day)" if partitioned else ""
        self.spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ({assignments})")
        return name

    def create_plain_table(self) -> str:
        """A new table without a key; its name with the catalog."""
        name = f"lake.db.plain{os.getpid()}_{next(_NUMBERS)}"
        self.spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg")
        return name

    def read_topic(self, topic: str, **settings: str) -> DataFrame:
        """All records that the topic has now, or those that the settings of Spark's source choose."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.brokers).options(**settings)
        return reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed").load()

    def check(self, table: str, expected: Totals) -> None:
        """Refuse to report on wrong answers."""
        row = self.spark.table(table).agg(F.count("*"), F.sum("qty"), F.sum("amount")).collect()[0]
        totals = Totals(*(int(value or 0) for value in row))
        if totals != expected:
            raise AssertionError(f"{table} holds {totals}, but the records add up to {expected}")

    def check_drained(self, table: str, records: int) -> None:
        """Refuse to report if drains have not brought each record once. The table must keep every change of a key."""
        summaries = self.spark.table(f"{table}.change.snapshots").select("summary").collect()
        drained = sum(int(row[0].get("added-records", 0)) for row in summaries if "firn.position-from" in row[0])
        if drained != records:
            raise AssertionError(f"drains of {table} have brought {drained} changes of {records} records")


@contextmanager
def stage(scratch: Path, memory: str, environment: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Start all three, the server with these variables, and make the namespace."""
    with (
        running_broker(scratch / "kafka") as brokers,
        running_server(scratch / "firn", environment) as server,
        running_spark(scratch, memory=memory, settings=spark_conf(kafka=True)) as spark,
    ):
        session = session_on(spark, server)
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        yield Stage(server, session, brokers, TreeStopwatch([os.getpid()]))


@contextmanager
def running_broker(data_dir: Path) -> Iterator[str]:
    """A broker of this run; its address."""
    with EmbeddedKafka(data_dir, port=0, heap_mib=HEAP_MIB) as broker:
        yield broker.brokers
