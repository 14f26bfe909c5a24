"""Backfills of tables whose runs fail before they take a chunk: they fail with the reason, and not too early."""

from __future__ import annotations

import pytest

from catalog.history.commit import Outcome
from catalog.jobs.job import JobStatus
from catalog.pipelines.backfill import Backfill, BackfillId
from firn.protocol.backfills import BackfillRequest, BackfillStatus
from tests.server.lake import PLAIN
from tests.server.service.pipelines.stage import DAILY, PipelineStage


@pytest.fixture
def built(stage: PipelineStage) -> PipelineStage:
    stage.lake.append(PLAIN)
    stage.put()
    stage.create_target()
    stage.build()
    return stage


def request(stage: PipelineStage, where: str = "id BETWEEN 1 AND 4") -> BackfillId:
    body = BackfillRequest(where=where)
    return stage.lake.services.pipeline_backfills.request("orders", DAILY, body, "ann").backfill.id


def change(stage: PipelineStage, backfill_id: BackfillId, status: BackfillStatus) -> None:
    stage.lake.services.pipeline_backfills.change("orders", DAILY, backfill_id, status)


def get(stage: PipelineStage, backfill_id: BackfillId) -> Backfill:
    return stage.lake.services.pipeline_backfills.get("orders", DAILY, backfill_id).backfill


def look(stage: PipelineStage) -> None:
    """Let the triggers look at the pipeline now."""
    with stage.lake.database.writing() as uow:
        uow.pipelines.plan_at(uow.pipelines.get("orders").id, uow.now())
    stage.lake.services.pipeline_triggers.run_once()


def fail(stage: PipelineStage, error: str, *, times: int = 1) -> None:
    """Let runs fail that have taken no chunk; triggers look at the pipeline after each of them."""
    for _ in range(times):
        attempt = stage.begin()
        failed = stage.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error=error, result={})
        assert failed.status is JobStatus.FAILED
        look(stage)


def test_a_backfill_fails_with_the_third_run_that_fails_before_it_takes_a_chunk(built: PipelineStage) -> None:
    """Its chunks do not tell that nobody works on them: no run has tried one."""
    older, newer = request(built), request(built, "id = 7")
    fail(built, "no disk", times=2)
    assert [get(built, entry).status for entry in (older, newer)] == [BackfillStatus.ACTIVE] * 2
    fail(built, "no rights")
    for backfill_id in (older, newer):
        failed = get(built, backfill_id)
        assert (failed.status, failed.ended_at is None) == (BackfillStatus.FAILED, False)
        assert failed.error == "the last 3 runs of mart.daily have failed; the newest: no rights"
    assert built.view().next_run is None


def test_a_resumed_backfill_begins_anew_with_the_count(built: PipelineStage) -> None:
    backfill_id = request(built)
    fail(built, "no disk", times=3)
    change(built, backfill_id, BackfillStatus.ACTIVE)
    look(built)  # starts a run at once
    attempt = built.lease()
    built.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error="no disk", result={})
    look(built)
    resumed = get(built, backfill_id)
    assert (resumed.status, resumed.error) == (BackfillStatus.ACTIVE, None)
    assert built.view().next_run is not None


def test_failures_before_the_request_or_before_a_success_do_not_count(built: PipelineStage) -> None:
    fail(built, "no disk", times=3)
    backfill_id = request(built)
    fail(built, "no disk", times=2)
    attempt = built.begin()
    attempt.pin()
    attempt.commit()
    attempt.report()
    fail(built, "no disk", times=2)
    assert get(built, backfill_id).status is BackfillStatus.ACTIVE
    fail(built, "no disk")
    assert get(built, backfill_id).status is BackfillStatus.FAILED


def test_a_run_that_a_user_has_started_meanwhile_may_still_take_chunks(built: PipelineStage) -> None:
    backfill_id = request(built)
    fail(built, "no disk", times=2)
    failing = built.begin()
    built.lake.services.jobs.report(failing.lease, Outcome.REFUSED, error="no disk", result={})
    attempt = built.begin()
    look(built)
    assert get(built, backfill_id).status is BackfillStatus.ACTIVE
    pinned = attempt.pin()
    assert pinned.chunks is not None
    assert [chunk.number for chunk in pinned.chunks.chunks] == [1]


def test_a_paused_backfill_stays_paused(built: PipelineStage) -> None:
    paused, active = request(built), request(built, "id = 7")
    change(built, paused, BackfillStatus.PAUSED)
    fail(built, "no disk", times=3)
    assert [get(built, entry).status for entry in (paused, active)] == [BackfillStatus.PAUSED, BackfillStatus.FAILED]
