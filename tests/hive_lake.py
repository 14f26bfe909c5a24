"""Hive tables of tests, with statements on Hive's side and requests to Firn."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

from tests.hive_engine import HiveEngine, Rows
from tests.spark_fixtures import ServerProcess

NUMBERS = count()
PATIENCE_SECONDS = 30
LONGEST_JOB_SECONDS = 240


def wait_until_settled() -> None:
    """Wait until a file written now is older than the second in which the next listing begins."""
    time.sleep(1.02 - time.time() % 1)


@dataclass(frozen=True)
class Side:
    """One server, one metastore and their Spark."""

    server: ServerProcess
    hive: HiveEngine
    directory: Path
    """The parent directory of Hive's tables."""
    lake: str = "lake"
    """The name of the server's catalog in Spark."""

    def worked_on(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run jobs until this job has ended, with success or without; return the job.

        Other jobs that the planner has planned meanwhile run too. The server may postpone a job whose task it cannot
        build yet, so the method goes on until LONGEST_JOB_SECONDS have passed.
        """
        give_up = time.monotonic() + LONGEST_JOB_SECONDS
        while (job_now := self.server.get(f"jobs/{job['id']}"))["status"] in ("pending", "running", "committing"):
            assert time.monotonic() < give_up, f"not ended: {job_now}"
            self.hive.work(self.server.url)
        return job_now

    def table(self, columns: str, partitioned_by: str = "", *rows: str, kind: str = "STORED AS PARQUET") -> HiveTable:
        """Make a Hive table with these rows, which Spark writes with its default settings."""
        table = HiveTable(self, f"t{next(NUMBERS)}")
        by = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        self.hive.sql(f"CREATE TABLE {table.name} ({columns}) {kind} {by} LOCATION '{table.path.as_uri()}'")
        for values in rows:
            table.insert(values)
        return table


@dataclass(frozen=True)
class HiveTable:
    """One Hive table and, once upgraded, the table of Firn over it."""

    side: Side
    short: str

    @property
    def name(self) -> str:
        return f"db.{self.short}"

    @property
    def path(self) -> Path:
        return self.side.directory / self.short

    def insert(self, values: str, *, how: str = "INTO", partition: str = "") -> None:
        self.side.hive.sql(f"INSERT {how} {self.name} {partition} {values}")

    def alter(self, change: str) -> None:
        self.side.hive.sql(f"ALTER TABLE {self.name} {change}")

    def hive_rows(self, columns: str = "*") -> Rows:
        return self.side.hive.sql(f"REFRESH TABLE {self.name}", f"SELECT {columns} FROM {self.name}")

    def rows(self, columns: str = "*", store: str = "") -> Rows:
        return self.side.hive.sql(f"SELECT {columns} FROM {self.side.lake}.{self.name}{store}")

    def start_upgrade(self, *key: str, **properties: str) -> dict[str, Any]:
        body = {"primary_key": list(key), "properties": properties}
        return self.side.server.post(f"catalogs/lake/hive/{self.name}/upgrade", body)

    def upgrade(self, *key: str, sequence_field: str | None = None, **properties: str) -> Self:
        wait_until_settled()
        body = {"primary_key": list(key), "sequence_field": sequence_field, "properties": properties}
        operation = self.side.server.post(f"catalogs/lake/hive/{self.name}/upgrade", body)
        ended = self.ended(operation)
        assert ended["status"] == "succeeded", ended
        return self

    def ended(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the end of an operation and return it."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (operation_now := self.side.server.get(f"operations/{operation['id']}"))["status"] == "running":
            assert time.monotonic() < give_up, f"still running: {operation_now}"
            time.sleep(0.1)
        return operation_now

    def change(self, values: str, op: str = "U", columns: str = "*") -> None:
        """Append a change through Firn; `values` has the table's columns in order."""
        self.side.hive.sql(
            f"INSERT INTO {self.side.lake}.{self.name}.change"
            f" SELECT {columns}, '{op}', CAST(NULL AS STRING) FROM ({values})"
        )

    def ask_sync(self, *, everything: bool = False) -> dict[str, Any]:
        wait_until_settled()
        return self.side.server.post(f"catalogs/lake/hive/{self.name}/sync?everything={str(everything).lower()}")

    def sync(self, *, everything: bool = False) -> dict[str, Any]:
        """Sync and run the jobs of syncs until nothing is left to do; return the answer of the first sync."""
        first = outcome = self.ask_sync(everything=everything)
        while outcome["job"] is not None:
            self.worked(outcome["job"])
            outcome = self.side.server.post(f"catalogs/lake/hive/{self.name}/sync")
        return first

    def ask_publish(self, *, merge: bool = True) -> dict[str, Any]:
        return self.side.server.post(f"catalogs/lake/hive/{self.name}/publish?merge={str(merge).lower()}")

    def publish(self) -> dict[str, Any]:
        """Request a publish, run jobs until the server has done it, and return the publish job."""
        self.ask_publish()
        give_up = time.monotonic() + LONGEST_JOB_SECONDS
        while (publish_request := self.shown()["publish_request"])["step"] not in ("done", "failed"):
            assert time.monotonic() < give_up, publish_request
            self.side.hive.work(self.side.server.url)
        assert publish_request["step"] == "done", publish_request
        assert publish_request["job_id"] is not None, publish_request["message"]
        return self.side.server.get(f"jobs/{publish_request['job_id']}")

    def shown(self) -> dict[str, Any]:
        """The Hive table as the server shows it."""
        return self.side.server.get(f"catalogs/lake/hive/{self.name}")

    def worked(self, job: Mapping[str, Any]) -> dict[str, Any]:
        ended = self.side.worked_on(job)
        assert ended["status"] == "succeeded", ended["error"]
        return ended

    def job(self, kind: str, **options: Any) -> dict[str, Any]:
        """Request a job, run it, and return it; fail if the job failed."""
        wanted = {"kind": kind, "options": options}
        return self.worked(self.side.server.post(f"catalogs/lake/tables/{self.name}/jobs", wanted))
