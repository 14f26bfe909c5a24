"""A metastore, a server linked to it and, where it is needed, Spark on both."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.hive.tables import HiveFiles, columns_sql
from bench.measure import Cost, Stopwatch, forget_peak, peak_mib
from bench.running import RunningServer, running_server, running_spark, session_on
from catalog.hive.model import HivePartition
from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_tables import a_hive_table, a_storage
from tests.server.metastore.hive_side import HiveSide

DATABASE = "hive"
POLL_SECONDS = 0.05
LONGEST_SECONDS = 600
_PARTITIONS_PER_CALL = 1_000
_METASTORE_HEAP_MIB = 1_024


@dataclass(frozen=True, slots=True)
class Stage:
    """The metastore and the server."""

    scratch: Path
    metastore: EmbeddedMetastore
    hive: HiveSide
    server: RunningServer

    def add_table(self, name: str, files: HiveFiles, location: str | None = None) -> str:
        """Tell the metastore of the files, as an external table of Hive's; its name with the database.

        `location` has copies of the files; without it they are where they were made.
        """
        storage = a_storage(location or files.directory.as_uri(), columns_sql("; ").lower())
        table = a_hive_table(DATABASE, name, storage=storage, partitioned_by="day string")
        self.hive.add_table(table)
        days = sorted({path.parent for path in files.paths})
        for at in range(0, len(days), _PARTITIONS_PER_CALL):
            some = [
                HivePartition(
                    values=(day.name.removeprefix("day="),),
                    storage=a_storage(f"{location or f'file:{files.directory}'}/{day.name}", columns_sql("; ").lower()),
                    parameters={"transient_lastDdlTime": "1700000000"},
                )
                for day in days[at : at + _PARTITIONS_PER_CALL]
            ]
            self.hive.add_partitions(DATABASE, name, some)
        return f"{DATABASE}.{name}"

    def upgrade(self, name: str, *key: str) -> None:
        """To its end; the client's own waiting looks too rarely for a stopwatch."""
        operation = self.server.client.hive.upgrade(name, primary_key=key)
        give_up = time.monotonic() + LONGEST_SECONDS
        while not operation.status.is_final:
            if time.monotonic() > give_up:
                raise TimeoutError(f"the upgrade of {name} is still {operation.phase} after {LONGEST_SECONDS} s")
            time.sleep(POLL_SECONDS)
            operation = self.server.client.operations.get(operation.id)
        if operation.status != "succeeded":
            raise RuntimeError(f"the upgrade of {name} has {operation.status}: {operation.error}")

    def upgraded(self, name: str) -> tuple[Cost, int]:
        """What it costs the server, and the MiB that it grows to."""
        forget_peak(self.server.pid)
        cost, _ = Stopwatch([self.server.pid]).cost(lambda: self.upgrade(name))
        return cost, peak_mib(self.server.pid)

    def spark(self, ends: ExitStack, memory: str) -> SparkSession:
        """A session on the metastore, on the server's catalog, and on a catalog without a server."""
        settings = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": self.metastore.uri,
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.catalog.hadoop": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.hadoop.type": "hadoop",
            "spark.sql.catalog.hadoop.warehouse": (self.scratch / "hadoop").as_uri(),
        }
        return session_on(
            ends.enter_context(running_spark(self.scratch, memory=memory, settings=settings)), self.server
        )


def stage(ends: ExitStack, scratch: Path) -> Stage:
    """Start both."""
    embedded = EmbeddedMetastore(scratch / "metastore", port=0, heap_mib=_METASTORE_HEAP_MIB, locks=True)
    metastore = ends.enter_context(embedded)
    hive = HiveSide(metastore.uri, scratch)
    ends.callback(hive.close)
    hive.add_database(DATABASE)
    server = ends.enter_context(running_server(scratch / "firn", {"FIRN_METASTORE": metastore.uri}))
    return Stage(scratch, metastore, hive, server)
