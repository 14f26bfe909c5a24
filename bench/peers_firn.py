"""Firn as one of the engines of `peersbench`; started by bench.peers, with the arguments of its `bench_peers.py`."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import types
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.measure import cpu_seconds
from bench.peers import HOME, OWN_LINE
from bench.running import RunningServer, running_server
from firn.spark.jars import packages
from firn.spark.sessions import EXTENSIONS, catalog_conf
from firn.spark.write import delete, upsert
from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.spark import SparkProcess
from optimizer.worker import Worker


class Firn:
    """See the base class of `peersbench`'s engines: it is what their common steps call."""

    spark = OWN_LINE
    packages = packages()
    server: RunningServer
    session: SparkSession
    table: str

    def __init__(self, _: Path) -> None:
        self.key = ("id", "day")

    def confs(self) -> dict[str, str]:
        """The catalog, and what an optimizer's Spark has besides."""
        return {"spark.sql.extensions": EXTENSIONS, **catalog_conf(self.server.client, "lake")}

    def bind(self, session: SparkSession, table: str) -> Firn:
        self.session, self.table = session, table
        return self

    def table_dir(self) -> Path:
        """The catalog's warehouse, as the server laid it out."""
        return Path(self.server.client.catalogs.get("lake").warehouse.removeprefix("file://"))

    def is_meta(self, relpath: str) -> bool:
        return "/metadata/" in relpath

    def relation(self) -> str:
        return f"lake.db.{self.table}"

    def load(self, rows: DataFrame) -> None:
        workload: Any = import_module("workload")
        properties = {"firn.primary-key": ",".join(self.key), "firn.key.scope": "partition"}
        assignments = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        self.session.sql(
            f"CREATE TABLE {self.relation()} ({workload.DDL}) USING iceberg PARTITIONED BY (day)"
            f" TBLPROPERTIES ({assignments})"
        )
        rows.writeTo(f"{self.relation()}.base").append()

    def upsert(self, batch: DataFrame) -> None:
        upsert(batch.where("op <> 'D'").drop("op"), self.relation())
        delete(batch.where("op = 'D'").select(*self.key), self.relation())

    def compact(self) -> None:
        """The merge, asked for and run as an optimizer does."""
        client, name = self.server.client, f"db.{self.table}"
        about = {"group": "default", "host": "bench", "pid": os.getpid(), "version": "0", "facts": {}}
        worker = Worker(connect(self.server.url), SparkProcess.of(self.session), JOBS, about, threading.Event())
        job = client.tables[name].start_job("merge")
        worker.work_once(worker.api.register(**about).id)
        job = client.jobs.get(job.id)
        if job.status != "succeeded":
            raise RuntimeError(f"the merge has {job.status}: {job.error}")

    def live_files(self) -> dict[str, int]:
        counts = self.session.sql(
            f"SELECT content, count(*) FROM {self.relation()}.base.files GROUP BY content"
        ).collect()
        return {"data" if content == 0 else "deletes": number for content, number in counts}


class FirnAppend(Firn):
    """One commit for upserts and deletes, as SQL would append them."""

    def upsert(self, batch: DataFrame) -> None:
        changes = batch.withColumnRenamed("op", "_op").withColumn("_source", F.lit(None).cast("string"))
        writer = changes.repartition(1, *self.key).writeTo(f"{self.relation()}.change")
        writer.option("distribution-mode", "none").append()


def main() -> int:
    """Start a server, then let `peersbench` do its steps with Firn among its engines."""
    sys.path.insert(0, str(HOME.resolve()))
    steps: Any = import_module("bench_peers")
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch, running_server(Path(scratch) / "firn") as server:
        Firn.server = server
        steps.ENGINES.update({"firn": Firn, "firn-append": FirnAppend})
        _count_firn_too(steps.Clock, server.pid)
        done: int = steps.main()
        return done


def _count_firn_too(clock: type[Any], pid: int) -> None:
    of_spark: types.FunctionType = clock.cpu
    clock.cpu = lambda self: of_spark(self) + cpu_seconds(pid) + cpu_seconds(os.getpid())


if __name__ == "__main__":
    sys.exit(main())
