"""An optimizer that runs two tables that move together: `mart.daily` with a key, and `mart.total` without one."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.commits.writers import Writer
from catalog.jobs.leases import Lease
from catalog.names import TableName
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import CHECKPOINT_KEY, PublishRun, TableChanges
from server.service.pipelines.pins import PinnedTarget
from server.service.pipelines.publishing import PublishedRun
from tests.factories import LAKE
from tests.server.lake import appended
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage

TOTAL = TableName(("mart",), "total")
SET = ["mart.daily", "mart.total"]
FIRST = {**DEFINED, "consistent": SET}
SECOND = {**DEFINED, "name": "mart.total", "fingerprint": "c" * 64, "key": [], "consistent": SET}


@dataclass
class SetRun:
    """An optimizer that runs both tables: a keyed one, and one without a key."""

    stage: PipelineStage
    lease: Lease
    daily: PinnedTarget
    total: PinnedTarget

    @classmethod
    def begin(cls, stage: PipelineStage, table: TableName = DAILY) -> SetRun:
        stage.request(table)
        lease = stage.lease().lease
        return cls(stage, lease, *cls.pin(stage, lease))

    @staticmethod
    def pin(stage: PipelineStage, lease: Lease) -> list[PinnedTarget]:
        return stage.lake.services.pipeline_pins.pin(lease, {DAILY: "a" * 64, TOTAL: "c" * 64})

    def again(self) -> SetRun:
        """The same attempt with new pins."""
        return SetRun(self.stage, self.lease, *self.pin(self.stage, self.lease))

    def change(self, pinned: PinnedTarget, **more: str) -> TableChanges:
        store = TableName(DAILY.as_namespace, "change") if pinned is self.daily else TOTAL
        summary = {
            "firn.writer-id": pinned.writer.name,
            "firn.writer-epoch": str(pinned.writer.epoch),
            "firn.position-from": pinned.writer.position,
            "firn.position": pinned.until.id,
            CHECKPOINT_KEY: "{}",
            **more,
        }
        change = appended(store, self.stage.lake.metadata(store), summary=summary)
        return TableChanges(table=str(pinned.table), requirements=[*change.requirements], updates=[*change.updates])

    def move(self, pinned: PinnedTarget) -> MoveCheckpoint:
        writer = pinned.writer
        return MoveCheckpoint(table=str(pinned.table), epoch=writer.epoch, start=writer.position, end=pinned.until.id)

    def both(self) -> PublishRun:
        return PublishRun(changes=[self.change(self.daily), self.change(self.total)])

    def publish(self, request: PublishRun | None = None) -> PublishedRun:
        return self.stage.lake.services.run_publishing.publish(self.lease, request or self.both())

    def report(self) -> None:
        self.stage.lake.services.jobs.report(self.lease, None, error=None, result={"mode": "full"})

    def writers(self) -> list[Writer]:
        get = self.stage.lake.services.writers.get
        return [get(LAKE, pinned.table, pinned.writer.name) for pinned in (self.daily, self.total)]

    def positions(self) -> list[str]:
        return [writer.position for writer in self.writers()]

    def ends(self) -> list[str]:
        return [self.daily.until.id, self.total.until.id]
