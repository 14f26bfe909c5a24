"""Optimizers that compute chunks beside the runs of a pipeline's table, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.history.commit import TableCommit
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease
from catalog.names import TableName
from catalog.pipelines.backfill import Backfill, BackfillId
from firn.protocol.backfills import BackfillRequest
from firn.protocol.beside import BACKFILL_KEY, ChunkState, CommitChunk
from firn.protocol.pipelines import TableChanges
from server.service.pipelines.beside import TakenChunk
from tests.server.lake import appended
from tests.server.service.pipelines.stage import DAILY, Attempt, PipelineStage

STORE = TableName(DAILY.as_namespace, "change")


@dataclass
class Side:
    """An optimizer that computes chunks beside the runs, step by step."""

    stage: PipelineStage
    lease: Lease
    taken_chunk: TakenChunk | None = None
    reason: str = ""

    def take(self, fingerprint: str = "a" * 64) -> int | None:
        """Take a chunk; its number."""
        answer = self.stage.lake.services.beside_chunks.take(self.lease, fingerprint)
        self.taken_chunk, self.reason = (None, answer) if isinstance(answer, str) else (answer, "")
        return None if self.taken_chunk is None else self.taken_chunk.chunks.chunks[0].number

    def look(self) -> str:
        """The position up to which the optimizer leaves out written keys."""
        return self.stage.writer().position

    def build(self, position: str | None = None, *, rows: bool = True) -> CommitChunk:
        assert self.taken_chunk is not None
        change = appended(STORE, self.stage.lake.metadata(STORE), summary={BACKFILL_KEY: "b/1"}) if rows else None
        return CommitChunk(
            take=self.taken_chunk.take.id,
            position=self.look() if position is None else position,
            change=None if change is None else as_changes(change),
        )

    def commit(self, position: str | None = None, *, rows: bool = True) -> ChunkState:
        return self.send(self.build(position, rows=rows))

    def send(self, request: CommitChunk) -> ChunkState:
        return self.stage.lake.services.beside_chunks.commit(self.lease, request)

    def report(self) -> Job:
        return self.stage.lake.services.jobs.report(self.lease, None, error=None, result={})


def as_changes(change: TableCommit, **more: Any) -> TableChanges:
    body = {"table": str(DAILY), "requirements": list(change.requirements), "updates": list(change.updates)}
    return TableChanges.model_validate(body | more)


def request(stage: PipelineStage, where: str = "id BETWEEN 1 AND 4", beside: int = 2, **more: Any) -> BackfillId:
    body = BackfillRequest.model_validate({"where": where, "beside": beside, **more})
    backfill_id = stage.lake.services.pipeline_backfills.request("orders", DAILY, body, "ann").backfill.id
    stage.lake.services.pipeline_triggers.run_once()
    return backfill_id


def get(stage: PipelineStage, backfill_id: BackfillId) -> Backfill:
    return stage.lake.services.pipeline_backfills.get("orders", DAILY, backfill_id).backfill


def done(stage: PipelineStage, backfill_id: BackfillId) -> list[int]:
    return [chunk.number for chunk in get(stage, backfill_id).chunks if chunk.is_stored_done]


def lease_side(stage: PipelineStage) -> Side:
    leased = stage.lake.services.jobs.take(stage.optimizer, [JobKind.PIPELINE])
    assert leased is not None
    return Side(stage, leased.lease)


def begin(stage: PipelineStage, **more: Any) -> tuple[BackfillId, Side]:
    """A backfill, and a job that has its first chunk."""
    backfill_id = request(stage, **more)
    side = lease_side(stage)
    assert side.take() == 1
    return backfill_id, side


def tick(stage: PipelineStage) -> int:
    """A tick of the triggers after the pause between two of them."""
    with stage.lake.database.writing() as uow:
        uow.pipelines.plan_at(uow.pipelines.get("orders").id, uow.now())
    return stage.lake.services.pipeline_triggers.run_once()


def run_live(stage: PipelineStage, attempt: Attempt | None = None) -> Attempt:
    """A whole live run; or the rest of one that has pinned."""
    if attempt is None:
        stage.request()
        attempt = take_run(stage)
        attempt.pin()
    attempt.commit()
    attempt.report()
    return attempt


def take_run(stage: PipelineStage) -> Attempt:
    """The lease of the live run, which goes before jobs of backfills."""
    attempt = stage.lease()
    assert "backfill" not in stage.job(attempt.lease.job_id).params
    return attempt
