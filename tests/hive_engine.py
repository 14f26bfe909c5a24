"""Spark as Hive's users run it, in its own process: its session has the Hive catalog, which Firn's sessions never have.

The same process reads Firn's tables, so one reader reads both sides of a comparison. It also runs optimizer jobs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import firn.spark
from firn.spark.jars import spark_conf
from firn.spark.local_frames import create_local_frame
from firn.spark.sessions import catalog_conf
from firn.spark.write import delete, upsert
from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.lease_keeper import LeaseKeeper
from optimizer.spark import SparkProcess
from optimizer.worker import Worker
from tests.spark_fixtures import ICEBERG

Rows = list[tuple[Any, ...]]


class HiveEngine:
    """One Spark with the Hive catalog of a metastore."""

    def __init__(self, metastore_uri: str, directory: Path, conf: Mapping[str, str] | None = None) -> None:
        """Start it; `conf` are further settings of the session."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, metastore_uri, str(directory), dict(conf or {})), daemon=True
        )
        self._process.start()
        other.close()
        self._asked = 0

    def sql(self, *statements: str) -> Rows:
        """Run statements and return the sorted rows of the last one."""
        rows: Rows = self._ask("sql", list(statements))
        return rows

    def schema(self, statement: str) -> list[tuple[str, str]]:
        """Names and types of a query's columns."""
        columns: list[tuple[str, str]] = self._ask("schema", statement)
        return columns

    def attach(self, url: str, name: str = "lake") -> None:
        """Let the session know a Firn server's catalog `lake` as `name`."""
        self._ask("attach", url, name)

    def write(self, op: str, table: str, ddl: str, rows: Rows, batch: str) -> bool:
        """`upsert` or `delete` rows through Firn's client; return whether the table had the batch already."""
        return bool(self._ask("write", op, table, ddl, rows, batch))

    def work(self, url: str) -> bool:
        """Take one job of a server and run it; return False if no job waits."""
        return bool(self._ask("work", url))

    def work_beside(self, url: str, stage: str, path: Path, text: str) -> None:
        """Take one job, and write a file when the job reports this stage; fail if no job does."""
        assert self._ask("work_beside", url, stage, str(path), text), "no job got there"

    def beside_jobs(self, url: str, call: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of `firn.spark`, and run the jobs that it waits for; return a data frame as its rows."""
        return self._ask("beside_jobs", url, call, arguments, named)

    def close(self) -> None:
        self._pipe.close()
        self._process.join(60)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, *request: Any) -> Any:
        """Answers of earlier requests are dropped: a test that ran out of time does not wait for its own."""
        self._asked += 1
        self._pipe.send((self._asked, *request))
        number, failed, answer = self._pipe.recv()
        while number != self._asked:
            number, failed, answer = self._pipe.recv()
        if failed:
            raise AssertionError(answer)
        return answer


def _serve(pipe: Connection, metastore_uri: str, directory: str, conf: dict[str, str]) -> None:
    engine = _Engine(metastore_uri, directory, conf)
    while True:
        try:
            number, command, *arguments = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send((number, False, getattr(engine, command)(*arguments)))
        except Exception as error:  # noqa: BLE001 -- the test that sent the command is in another process
            pipe.send((number, True, f"{command} {arguments}: {error}"))
    engine.spark.stop()


class _Engine:
    def __init__(self, metastore_uri: str, directory: str, conf: dict[str, str]) -> None:
        hive = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": metastore_uri,
            "spark.sql.warehouse.dir": f"file:{directory}/warehouse",
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
        }
        os.environ["PYSPARK_PYTHON"] = sys.executable  # as an optimizer sets it
        builder = SparkSession.builder.master("local[2]").appName("hive's users")
        self.spark = builder.config(map={**spark_conf(), **ICEBERG, **hive, **conf}).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.workers: dict[str, tuple[Worker, str]] = {}

    def sql(self, statements: list[str]) -> Rows:
        rows: Rows = []
        for statement in statements:
            rows = [tuple(row) for row in self.spark.sql(statement).collect()]
        return sorted(rows, key=repr)

    def schema(self, statement: str) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self.spark.sql(statement).schema.fields]

    def attach(self, url: str, name: str) -> None:
        for key, value in catalog_conf(url, "lake", name=name).items():
            self.spark.conf.set(key, value)

    def beside_jobs(self, url: str, call: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if call != "read":
            arguments = (self.spark.sql(arguments[0]), *arguments[1:])
        else:
            named = {**named, "spark": self.spark}
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(getattr(firn.spark, call), *arguments, **named)
            while not future.done():
                self.work(url)
        answer = future.result()
        return sorted((tuple(row) for row in answer.collect()), key=repr) if call == "read" else answer

    def write(self, op: str, table: str, ddl: str, rows: Rows, batch: str) -> bool:
        written = {"upsert": upsert, "delete": delete}[op]
        frame = create_local_frame(self.spark, rows, ddl)
        return written(frame, table, batch=batch, writer="test").was_there

    def work(self, url: str) -> bool:
        if url not in self.workers:
            about = {"group": "default", "host": "here", "pid": 1, "version": "0", "facts": {}}
            worker = Worker(connect(url), SparkProcess.of(self.spark), JOBS, about, threading.Event())
            self.workers[url] = worker, worker.api.register(**about).id
        worker, optimizer_id = self.workers[url]
        return worker.work_once(optimizer_id, wait_seconds=1)

    def work_beside(self, url: str, stage: str, path: str, text: str) -> bool:
        future, was_there = LeaseKeeper.stage, list[str]()

        def noticed(hold: LeaseKeeper, name: str) -> None:
            if name == stage:
                Path(path).write_text(text)
                was_there.append(name)
            future(hold, name)

        with patch.object(LeaseKeeper, "stage", noticed):
            self.work(url)
        return bool(was_there)
