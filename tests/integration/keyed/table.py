"""A keyed table of a test on a real server: made by SQL, written in every way there is, read in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import firn
from firn.protocol.leases import Lease
from firn.spark.local_frames import create_local_frame
from firn.spark.write import Written, delete, upsert
from optimizer.client import ServerApi
from optimizer.worker import Worker
from tests.integration.keyed.appends import Store
from tests.integration.keyed.invariants import check_files, check_versions, check_watermarks, read_files
from tests.integration.keyed.model import Key, Row, Shape, by_key
from tests.spark_fixtures import RunningServer
from tests.waiting import wait_for

NUMBERS = count()


@dataclass(frozen=True)
class Interrupted(ServerApi):
    """A server to an optimizer that is held up, once, when it has said that it commits."""

    then: list[Callable[[], None]]

    def committing(self, lease: Lease) -> None:
        super().committing(lease)
        while self.then:
            self.then.pop()()


@dataclass(frozen=True)
class Table:
    """One keyed table, and whoever works on it."""

    server: RunningServer
    worker: Worker
    shape: Shape
    short: str

    @classmethod
    def create(cls, server: RunningServer, worker: Worker, shape: Shape, **properties: str) -> Table:
        table = cls(server, worker, shape, f"db.t{next(NUMBERS)}")
        columns = ", ".join(f"`{name}` {kind}" for name, kind in shape.columns.items())
        by = f"PARTITIONED BY (`{shape.partition}`)" if shape.partition else ""
        listed = ", ".join(f"'{key}'='{value}'" for key, value in {**shape.properties, **properties}.items())
        server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        server.spark.sql(f"CREATE TABLE {table.name} ({columns}) USING iceberg {by} TBLPROPERTIES ({listed})")
        return table

    def set_property(self, key: str, value: str | None) -> None:
        """Of the table's policy; None removes it."""
        change = {"remove": [key]} if value is None else {"set": {key: value}}
        answer = self.server.http.patch(f"/api/v1/catalogs/lake/tables/{self.short}/properties", json=change)
        assert answer.is_success, answer.text

    @property
    def name(self) -> str:
        return f"lake.{self.short}"

    @property
    def base(self) -> Store:
        return Store(self.server.http, (*self.short.split("."), "base"))

    @property
    def change(self) -> Store:
        return Store(self.server.http, (*self.short.split("."), "change"))

    def upsert(self, rows: Sequence[Row], columns: Mapping[str, str], *, batch: str | None = None) -> Written:
        return upsert(self._frame(rows, columns), self.name, batch=batch, writer="test")

    def delete(self, rows: Sequence[Row], columns: Mapping[str, str], *, batch: str | None = None) -> Written:
        return delete(self._frame(rows, columns), self.name, batch=batch, writer="test")

    def alter(self, change: str, store: str = "base") -> None:
        self.sql(f"ALTER TABLE {self.name}.{store} {change}")

    def ask(self, kind: str, **params: str) -> str:
        """Ask for a job; its id."""
        wanted = {"kind": kind, "options": params}
        return str(self.server.post(f"catalogs/lake/tables/{self.short}/jobs", wanted)["id"])

    def run(self, kind: str, **params: str) -> dict[str, Any]:
        """Ask for a job, have it run, and see that it ended well."""
        job = self._worked_off(self.ask(kind, **params), self.worker)
        assert job["status"] == "succeeded", job
        return job

    def attempt(self, kind: str, *, before_commit: Callable[[], None], **params: Any) -> dict[str, Any]:
        """Ask for a job and have it run; what is given happens when it is about to commit for the first time."""
        api = Interrupted(self.worker.api.http, [before_commit])
        return self._worked_off(self.ask(kind, **params), replace(self.worker, api=api))

    def finish(self, job_id: str) -> dict[str, Any]:
        """Have a job whose optimizer has died ended by another one, if it is not over."""
        optimizer_id = self.worker.api.register(**self.worker.about).id

        def is_over() -> bool:
            self.worker.work_once(optimizer_id, wait_seconds=0.2)
            return bool(self.server.get(f"jobs/{job_id}")["status"] == "succeeded")

        wait_for(is_over, "the job's success")
        return self.server.get(f"jobs/{job_id}")

    def _worked_off(self, job_id: str, worker: Worker) -> dict[str, Any]:
        """An older job of another table goes first."""
        optimizer_id = worker.api.register(**worker.about).id
        job = self.server.get(f"jobs/{job_id}")
        while job["status"] == "pending" and job["attempt"] == 0:
            assert worker.work_once(optimizer_id, wait_seconds=5)
            job = self.server.get(f"jobs/{job_id}")
        return job

    def show(self) -> dict[str, Any]:
        return self.server.get(f"catalogs/lake/tables/{self.short}")

    def active_jobs(self, *kinds: str) -> list[str]:
        """What is still to do; of these kinds, where a server that starts may have planned others."""
        jobs = self.server.get(f"catalogs/lake/tables/{self.short}/jobs")["items"]
        selected = [job for job in jobs if not kinds or job["kind"] in kinds]
        over = ("succeeded", "failed", "canceled")
        return [f"{job['kind']} {job['id']} {job['status']}" for job in selected if job["status"] not in over]

    def by_arrow(self, store: str = "") -> dict[Key, Row]:
        """The merged rows, or those of one store, as the client reads them without Spark."""
        with firn.connect(self.server.url) as client:
            return by_key(self.shape, client.scan(f"{self.name}{store}").to_arrow().to_pylist())

    def by_spark(self, part: str = "") -> dict[Key, Row]:
        """The rows of the table, or of a store, or of one of its references."""
        rows = self.sql(f"SELECT * FROM {self.name}{part}").collect()
        return by_key(self.shape, (row.asDict() for row in rows))

    def sql(self, statement: str) -> Any:
        return self.server.spark.sql(statement)

    def read_every_file(self) -> None:
        """Every file of every snapshot that is left, of both stores."""
        for store in (self.base, self.change):
            read_files(store.load())

    def check_stores(self) -> None:
        """What holds whatever was done."""
        base, change = self.base.load(), self.change.load()
        check_watermarks(base)
        check_files(self.base, base)
        check_files(self.change, change)
        listed: Any = self.server.get(f"catalogs/lake/tables/{self.short}/versions")
        check_versions(base, change, listed)

    def _frame(self, rows: Sequence[Row], columns: Mapping[str, str]) -> Any:
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        return create_local_frame(self.server.spark, [tuple(row[name] for name in columns) for row in rows], ddl)
