"""Keyed tables of tests on a real server, and an optimizer in this process."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from itertools import count
from typing import Any

from firn.spark.local_frames import create_local_frame
from firn.spark.write import delete, upsert
from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.spark import SparkProcess
from optimizer.worker import Worker
from tests.spark_fixtures import RunningServer, shared_spark

NUMBERS = count()


class KeyedTable:
    """A keyed table of a test. It is written and merged as users and optimizers do it.

    Merges run in Spark, by rewriting, unless the test names another mode: `auto` would adopt on tables of this size.
    """

    def __init__(self, server: RunningServer, worker: Worker, columns: str, partition: str, **properties: str) -> None:
        self.server, self.worker, self.columns = server, worker, columns
        self.short = f"db.t{next(NUMBERS)}"
        self.name = f"lake.{self.short}"
        properties = {"firn.merge.mode": "rewrite"} | properties
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        by = f"PARTITIONED BY ({partition})" if partition else ""
        server.spark.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg {by} TBLPROPERTIES ({listed})")

    def upsert(self, *rows: tuple[Any, ...], **options: Any) -> bool:
        """Upsert rows; return whether the table had the batch already."""
        return upsert(create_local_frame(self.server.spark, rows, self.columns), self.name, **options).was_there

    def delete(self, *rows: tuple[Any, ...], columns: str) -> None:
        delete(create_local_frame(self.server.spark, rows, columns), self.name)

    def rows(self, part: str = "") -> list[tuple[Any, ...]]:
        return self.server.rows(f"SELECT * FROM {self.name}{part}")

    def ask(self, kind: str, **params: Any) -> str:
        """Request a job and return its id."""
        return str(self.server.post(f"catalogs/lake/tables/{self.short}/jobs", {"kind": kind, "options": params})["id"])

    def run(self, kind: str, **params: Any) -> dict[str, Any]:
        """Request a job, run it if it has anything to do, and return it."""
        job_id = self.ask(kind, **params)
        if (job := self.server.get(f"jobs/{job_id}"))["outcome"] == "nothing to do":
            return job
        optimizer_id = self.worker.api.register(**self.worker.about).id
        assert self.worker.work_once(optimizer_id, wait_seconds=5)
        return self.server.get(f"jobs/{job_id}")


def change_row(table: KeyedTable, **columns: str) -> None:
    """Change columns of a table's row in the database, to get a table that is older than the server's rules."""
    namespace, name = table.short.split(".")
    assignments = ", ".join(f"{column} = :{column}" for column in columns)
    with closing(sqlite3.connect(table.server.data_dir / "firn.db", timeout=30)) as database, database:
        changed = database.execute(
            f"UPDATE relation SET {assignments} WHERE namespace = :namespace AND name = :name",
            {**columns, "namespace": namespace, "name": name},
        )
        assert changed.rowcount == 1


def a_worker(url: str) -> Worker:
    about = {"group": "default", "host": "here", "pid": 1, "version": "0", "facts": {}}
    return Worker(connect(url), SparkProcess.of(shared_spark()), JOBS, about, threading.Event())
