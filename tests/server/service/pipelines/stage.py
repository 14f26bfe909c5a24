"""A lake with a pipeline: `mart.daily` reads the plain table `db.plain` and the keyed one `db.orders`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catalog.access.privileges import Principal
from catalog.commits.writers import Writer
from catalog.history.commit import TableCommit
from catalog.jobs.job import Job, JobId, JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from catalog.pipelines.pipeline import StoredCheckpoint
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import CHECKPOINT_KEY, PutOut, PutPipeline
from server.service.pipelines.pins import PinnedTarget
from server.service.pipelines.repeated_requests import WantedRun
from server.service.pipelines.states import TableView
from tests.factories import LAKE
from tests.server.lake import ORDERS, PLAIN, Lake, appended, definition

DAILY = TableName(("mart",), "daily")
RANK = TableName(("mart",), "rank")
WRITER = "pipeline:orders#mart.daily"
DEFINED: dict[str, Any] = {
    "name": "mart.daily",
    "query": "SELECT id, count(*) AS n FROM db.plain JOIN db.orders USING (id) GROUP BY id",
    "path": "transformations/daily.sql",
    "line": 1,
    "inputs": ["db.plain", "db.orders"],
    "key": ["id"],
    "fingerprint": "a" * 64,
    "incremental": True,
    "scope": ["id"],
}
RANKED: dict[str, Any] = {
    **DEFINED,
    "name": "mart.rank",
    "inputs": ["mart.daily"],
    "key": [],
    "fingerprint": "b" * 64,
    "incremental": False,
}


def version(*tables: dict[str, Any], **more: Any) -> PutPipeline:
    """A version of a pipeline with these definitions."""
    body = {"catalog": LAKE, "files": [], "tables": list(tables or (DEFINED,)), **more}
    return PutPipeline.model_validate(body)


@dataclass
class Attempt:
    """An optimizer that runs a table, step by step."""

    stage: PipelineStage
    lease: Lease
    pinned: PinnedTarget | None = None

    def pin(self, fingerprint: str = "a" * 64, table: TableName = DAILY) -> PinnedTarget:
        (self.pinned,) = self.stage.lake.services.pipeline_pins.pin(self.lease, {table: fingerprint})
        return self.pinned

    def commit(self, **more: str) -> int:
        """Commit rows and the new position; returns the snapshot."""
        assert self.pinned is not None
        change = self.change(**more)
        self.stage.lake.commit(change)
        return int(change.updates[0]["snapshot"]["snapshot-id"])

    def change(self, **more: str) -> TableCommit:
        assert self.pinned is not None
        writer, until = self.pinned.writer, self.pinned.until
        summary = {
            "firn.writer-id": writer.name,
            "firn.writer-epoch": str(writer.epoch),
            "firn.position-from": writer.position,
            "firn.position": until.id,
            CHECKPOINT_KEY: "{}",
            **more,
        }
        store = TableName(DAILY.as_namespace, "change") if self.stage.is_keyed else DAILY
        return appended(store, self.stage.lake.metadata(store), summary=summary)

    def move(self, **changes: Any) -> Writer:
        """The step without a commit."""
        assert self.pinned is not None
        writer, until = self.pinned.writer, self.pinned.until
        step: dict[str, Any] = {
            "table": str(self.pinned.table),
            "epoch": writer.epoch,
            "start": writer.position,
            "end": until.id,
            **changes,
        }
        return self.stage.lake.services.pipeline_pins.move(self.lease, MoveCheckpoint.model_validate(step))

    def report(self) -> Job:
        return self.stage.lake.services.jobs.report(self.lease, None, error=None, result={"mode": "full"})


@dataclass
class PipelineStage:
    """The lake, and a pipeline `orders` on it."""

    lake: Lake
    is_keyed: bool = True
    optimizer: str = field(default="")

    @classmethod
    def of(cls, lake: Lake, *, is_keyed: bool = True) -> PipelineStage:
        lake.create(PLAIN)
        lake.create_keyed(ORDERS)
        lake.services.namespaces.create(LAKE, ("mart",), {})
        return cls(lake, is_keyed=is_keyed, optimizer=lake.optimizer())

    def put(
        self, *tables: dict[str, Any], author: Principal | None = None, name: str = "orders", **more: Any
    ) -> PutOut:
        return self.lake.services.pipelines.put(name, version(*tables, **more), author)

    def create_target(self, name: TableName = DAILY) -> None:
        """As an optimizer does before it pins."""
        if self.is_keyed:
            spec = KeySpec.from_properties({"firn.primary-key": "id"})
            assert spec is not None
            self.lake.services.keyed.create(LAKE, definition(name), spec)
        else:
            self.lake.create(name)

    def request(self, table: TableName = DAILY, *, full: bool = False) -> Job:
        return self.lake.services.pipeline_runs.request("orders", table, None, WantedRun(full=full))

    def lease(self) -> Attempt:
        leased = self.lake.services.jobs.take(self.optimizer, [JobKind.PIPELINE])
        assert leased is not None
        return Attempt(self, leased.lease)

    def begin(self, *, full: bool = False) -> Attempt:
        """A requested run with its lease."""
        self.request(full=full)
        return self.lease()

    def build(self) -> StoredCheckpoint:
        """A whole run that commits; returns its checkpoint."""
        attempt = self.begin()
        pinned = attempt.pin()
        attempt.commit()
        attempt.report()
        return pinned.until

    def job(self, job_id: JobId) -> Job:
        with self.lake.database.reading() as uow:
            return uow.jobs.get(job_id)

    def view(self, table: TableName = DAILY) -> TableView:
        services = self.lake.services
        (views,) = services.pipeline_states.describe([services.pipelines.get("orders")])
        return next(view for view in views if view.table.name == table)

    def writer(self) -> Writer:
        return self.lake.services.writers.get(LAKE, DAILY, WRITER)
