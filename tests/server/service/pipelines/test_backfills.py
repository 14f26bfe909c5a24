"""Backfills in the server's transactions: requests, claims of runs, and rules 8.9 to 8.12 of docs/protocols.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import CommitRefused, Conflict, Invalid, InvalidDefinition, LeaseLost, NotFound, WriterFenced
from catalog.history.commit import Outcome, TableCommit
from catalog.jobs.job import JobStatus
from catalog.pipelines.backfill import BackfillId
from firn.protocol.backfills import BackfillRequest, BackfillStatus, ClaimRequest, ReplayRequest
from server.service.pipelines.backfills import BackfillView, PipelineBackfills
from server.service.tables.refs import Target
from tests.factories import LAKE
from tests.server.lake import CHANGE, PLAIN, Lake
from tests.server.service.pipelines.stage import DAILY, DEFINED, Attempt, PipelineStage


@pytest.fixture
def built(stage: PipelineStage) -> PipelineStage:
    stage.lake.append(PLAIN)
    stage.put()
    stage.create_target()
    stage.build()
    return stage


def backfills(stage: PipelineStage) -> PipelineBackfills:
    return stage.lake.services.pipeline_backfills


def request(stage: PipelineStage, where: str = "id BETWEEN 1 AND 4", **more: Any) -> BackfillId:
    body = BackfillRequest.model_validate({"where": where, **more})
    return backfills(stage).request("orders", DAILY, body, "ann").backfill.id


def get(stage: PipelineStage, backfill_id: BackfillId) -> BackfillView:
    return backfills(stage).get("orders", DAILY, backfill_id)


def done(stage: PipelineStage, backfill_id: BackfillId) -> list[int]:
    return [chunk.number for chunk in get(stage, backfill_id).backfill.chunks if chunk.done_by is not None]


def taken_chunks(attempt: Attempt) -> list[int]:
    assert attempt.pinned is not None
    chunks = attempt.pinned.chunks
    return [] if chunks is None else [chunk.number for chunk in chunks.chunks]


def pinned(stage: PipelineStage, **more: Any) -> Attempt:
    attempt = stage.begin(**more)
    attempt.pin()
    return attempt


def claim(attempt: Attempt, **changes: Any) -> Any:
    assert attempt.pinned is not None
    body = {"table": str(DAILY), "epoch": attempt.pinned.writer.epoch, "checkpoint": attempt.pinned.until.id}
    return backfills(attempt.stage).claim_all(attempt.lease, ClaimRequest.model_validate(body | changes))


def test_runs_take_chunks_until_all_are_committed(built: PipelineStage) -> None:
    backfill_id = request(built)
    seen = list[int]()
    for _ in range(3):
        attempt = pinned(built)
        seen += taken_chunks(attempt)
        assert get(built, backfill_id).running == set(taken_chunks(attempt))
        attempt.commit()
        assert seen[-1] in done(built, backfill_id)  # with the commit, before anybody reports it
        assert get(built, backfill_id).running == set()
        attempt.report()
    assert (seen, get(built, backfill_id).backfill.status) == ([1, 2, 3, 4], BackfillStatus.FINISHED)
    assert taken_chunks(pinned(built)) == []


def test_a_step_without_a_commit_ends_chunks_as_well(built: PipelineStage) -> None:
    backfill_id = request(built)
    attempt = pinned(built)
    attempt.move()
    assert done(built, backfill_id) == [1]


def test_chunks_of_a_run_that_dies_are_done_again(built: PipelineStage) -> None:
    backfill_id = request(built)
    attempt = pinned(built)
    attempt.pin()  # the optimizer died, and the next one asks again
    assert taken_chunks(attempt) == [1]
    assert get(built, backfill_id).backfill.chunks[0].attempts == 1
    attempt.commit()
    attempt.report()
    assert done(built, backfill_id) == [1]


def test_a_cancelled_run_ends_no_chunk(built: PipelineStage) -> None:
    backfill_id = request(built)
    attempt = pinned(built)
    built.lake.services.jobs.cancel(attempt.lease.job_id)
    with pytest.raises(WriterFenced):
        attempt.commit()
    assert (done(built, backfill_id), get(built, backfill_id).running) == ([], set())
    assert taken_chunks(pinned(built)) == [1]


def test_live_runs_go_on_without_a_chunk_that_two_runs_could_not_compute(built: PipelineStage) -> None:
    backfill_id = request(built)
    for _ in range(2):
        attempt = pinned(built)
        assert taken_chunks(attempt) == [1]
        built.lake.services.jobs.cancel(attempt.lease.job_id)
    assert taken_chunks(pinned(built)) == []
    failed = get(built, backfill_id).backfill
    assert (failed.status, "chunk 1" in (failed.error or "")) == (BackfillStatus.FAILED, True)
    resumed = backfills(built).change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    assert (resumed.backfill.status, resumed.backfill.chunks[0].attempts) == (BackfillStatus.ACTIVE, 0)


def test_a_rollback_of_the_table_opens_a_finished_backfill_again(lake: Lake) -> None:
    stage = PipelineStage.of(lake, is_keyed=False)
    stage.put()
    stage.create_target()
    stage.build()
    before = stage.writer().snapshot_id
    backfill_id = request(stage, "id = 1")
    stage.build()
    assert get(stage, backfill_id).backfill.status is BackfillStatus.FINISHED
    stage.build()
    lake.services.refs.rollback(LAKE, DAILY, Target(snapshot=str(before)), expected_head=None)
    assert get(stage, backfill_id).backfill.status is BackfillStatus.ACTIVE
    assert taken_chunks(pinned(stage)) == [1]


def test_a_full_run_claims_the_chunks_of_backfills_that_are_older_than_its_pins(built: PipelineStage) -> None:
    older = request(built)
    attempt = pinned(built, full=True)
    assert attempt.pinned is not None
    assert (attempt.pinned.chunks, attempt.pinned.has_backfills) == (None, True)
    newer = request(built)  # about rows that were damaged after the run had read the table
    assert claim(attempt) == {str(older): [1, 2, 3, 4]}
    assert claim(attempt) == {str(older): [1, 2, 3, 4]}
    attempt.commit()
    assert (done(built, older), done(built, newer)) == ([1, 2, 3, 4], [])


def test_claims_need_the_lease_the_epoch_and_an_own_checkpoint(built: PipelineStage) -> None:
    request(built)
    attempt = pinned(built, full=True)
    with pytest.raises(Invalid, match="is no checkpoint of this run"):
        claim(attempt, checkpoint="another")
    with pytest.raises(Invalid, match="is no table of this run"):
        claim(attempt, table="mart.other")
    old = attempt.pinned
    attempt.pin()
    with pytest.raises(WriterFenced):
        claim(Attempt(built, attempt.lease, old))
    built.lake.services.jobs.cancel(attempt.lease.job_id)
    with pytest.raises(LeaseLost):
        claim(attempt)


def test_a_backfill_is_paused_resumed_and_cancelled(built: PipelineStage) -> None:
    backfill_id, change = request(built), backfills(built).change
    change("orders", DAILY, backfill_id, BackfillStatus.PAUSED)
    attempt = pinned(built)
    assert taken_chunks(attempt) == []
    attempt.move()
    attempt.report()
    change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    attempt = pinned(built)
    assert taken_chunks(attempt) == [1]
    change("orders", DAILY, backfill_id, BackfillStatus.CANCELED)
    attempt.commit()
    attempt.report()
    assert taken_chunks(pinned(built)) == []
    with pytest.raises(Conflict, match="is canceled"):
        change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    with pytest.raises(NotFound):
        change("orders", DAILY, BackfillId(uuid4()), BackfillStatus.ACTIVE)


def test_firn_starts_runs_while_chunks_are_left(built: PipelineStage) -> None:
    """Nobody starts runs of this table otherwise, and none of its inputs changes."""
    triggers = built.lake.services.pipeline_triggers
    assert triggers.run_once() == 0
    backfill_id = request(built, chunks=2)
    for _ in range(2):
        assert triggers.run_once() == 1
        attempt = built.lease()
        assert built.job(attempt.lease.job_id).reason == "a backfill has chunks left"
        attempt.pin()
        attempt.commit()
        attempt.report()
        with built.lake.database.writing() as uow:
            uow.pipelines.plan_at(uow.pipelines.get("orders").id, uow.now())  # the ten seconds have passed
    assert triggers.run_once() == 0
    assert len(done(built, backfill_id)) == 2


def fail(stage: PipelineStage) -> list[int]:
    """Let a run fail; returns the chunks that it has taken."""
    attempt = pinned(stage)
    chunks = taken_chunks(attempt)
    job = stage.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error="no", result={})
    assert job.status is JobStatus.FAILED
    return chunks


def test_runs_that_failed_before_a_user_asks_do_not_leave_a_backfill_waiting_for_ever(built: PipelineStage) -> None:
    """Triggers start no run after three failures, so the backfill would be active, and nobody would work on it."""
    assert [fail(built) for _ in range(3)] == [[], [], []]
    backfill_id = request(built)
    for _ in range(2):
        assert built.view().next_run is not None
        assert fail(built) == [1]
    assert fail(built) == []
    assert get(built, backfill_id).backfill.status is BackfillStatus.FAILED
    assert built.view().next_run is None
    backfills(built).change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    next_run = built.view().next_run
    assert next_run is not None
    assert next_run.reason == "a backfill has chunks left"


def test_a_dry_run_stores_nothing(built: PipelineStage) -> None:
    body = BackfillRequest(where="id IN (1, 2, 3)", dry_run=True)
    view = backfills(built).request("orders", DAILY, body, None)
    assert [chunk.condition for chunk in view.backfill.chunks] == ["`id` IN (1)", "`id` IN (2)", "`id` IN (3)"]
    assert backfills(built).list("orders", DAILY, limit=9, cursor=None).items == []


@pytest.mark.parametrize("where", ["n > 1", "id >", "id IN (SELECT 1)", "rand() < 1", "reflect('a', 'b') = id"])
def test_a_condition_that_is_not_one_over_the_scope_is_refused(built: PipelineStage, where: str) -> None:
    with pytest.raises(InvalidDefinition, match="where: "):
        request(built, where)


def test_tables_without_a_checkpoint_and_full_ones_have_no_backfills(stage: PipelineStage) -> None:
    stage.put()
    with pytest.raises(Conflict, match="anyway"):
        request(stage)
    stage.put({**DEFINED, "incremental": False, "scope": []})
    with pytest.raises(Conflict, match="has no ranges"):
        request(stage)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scope": ["other"]}, "id is no column"),
        ({"refresh": "full"}, "each run computes all rows"),
    ],
)
def test_a_backfill_fails_if_the_table_has_no_such_ranges_any_more(
    built: PipelineStage, changes: dict[str, Any], error: str
) -> None:
    backfill_id = request(built)
    built.put({**DEFINED, **changes})
    attempt = pinned(built)
    assert taken_chunks(attempt) == []
    failed = get(built, backfill_id).backfill
    assert (failed.status, error in (failed.error or "")) == (BackfillStatus.FAILED, True)


def replay(stage: PipelineStage, **body: Any) -> BackfillView:
    return backfills(stage).replay("orders", DAILY, ReplayRequest.model_validate(body), "ann")


def test_a_run_replays_the_changes_since_an_earlier_checkpoint_and_those_since_its_own(built: PipelineStage) -> None:
    first = built.view().checkpoint
    assert first is not None
    built.lake.append(CHANGE)
    built.build()
    second = built.view().checkpoint
    view = replay(built, checkpoint=first.id)
    assert (view.backfill.since, view.backfill.where) == (first.id, None)
    built.lake.append(CHANGE)
    attempt = pinned(built)
    assert attempt.pinned is not None
    assert (attempt.pinned.since, attempt.pinned.replay, attempt.pinned.chunks) == (second, first, None)
    attempt.commit()
    attempt.report()
    assert get(built, view.backfill.id).backfill.status is BackfillStatus.FINISHED
    after = pinned(built).pinned
    assert after is not None
    assert after.replay is None


def test_a_replay_goes_from_a_time_or_from_the_oldest_usable_checkpoint(built: PipelineStage) -> None:
    first = built.view().checkpoint
    built.lake.append(CHANGE)
    built.build()
    second = built.view().checkpoint
    assert first is not None
    assert second is not None
    between = first.pinned_at + (second.pinned_at - first.pinned_at) / 2
    assert replay(built, at=between, dry_run=True).backfill.since == first.id
    assert replay(built, dry_run=True).backfill.since == first.id
    assert backfills(built).list("orders", DAILY, limit=9, cursor=None).items == []
    with pytest.raises(NotFound, match="has no such checkpoint"):
        replay(built, at=first.pinned_at - timedelta(seconds=1))
    with pytest.raises(NotFound, match="has no such checkpoint"):
        replay(built, checkpoint="another")
    built.put({**DEFINED, "fingerprint": "c" * 64}, rebuild=True)
    with pytest.raises(Conflict, match="anyway"):
        replay(built)


def test_a_checkpoint_whose_inputs_were_rolled_back_is_not_replayed(built: PipelineStage) -> None:
    lake, first = built.lake, built.lake.metadata(PLAIN)["current-snapshot-id"]
    lake.append(PLAIN)
    built.build()
    checkpoint = built.view().checkpoint
    assert checkpoint is not None
    requested, change = replay(built, checkpoint=checkpoint.id).backfill.id, backfills(built).change
    lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(first)), expected_head=None)
    with pytest.raises(Conflict, match=r"cannot be used: db\.plain was rolled back"):
        replay(built, checkpoint=checkpoint.id)
    change("orders", DAILY, requested, BackfillStatus.PAUSED)
    built.build()  # full, because the table's own checkpoint was rolled back as well
    change("orders", DAILY, requested, BackfillStatus.ACTIVE)
    attempt = pinned(built)
    assert attempt.pinned is not None
    assert "the checkpoint of the replay cannot be used" in (attempt.pinned.full_reason or "")
    assert attempt.pinned.replay is None
    attempt.commit()
    assert get(built, requested).backfill.status is BackfillStatus.FINISHED


def test_expiry_keeps_the_versions_of_an_open_replay(built: PipelineStage) -> None:
    lake, checkpoint = built.lake, built.view().checkpoint
    first = lake.metadata(PLAIN)["current-snapshot-id"]
    assert checkpoint is not None
    lake.append(PLAIN)
    built.build()
    requested = replay(built, checkpoint=checkpoint.id).backfill.id
    removal = TableCommit(name=PLAIN, updates=[{"action": "remove-snapshots", "snapshot-ids": [first]}])
    with pytest.raises(CommitRefused, match="still needs it"):
        lake.commit(removal)
    backfills(built).change("orders", DAILY, requested, BackfillStatus.CANCELED)
    lake.commit(removal)


def test_a_table_has_a_bounded_number_of_open_backfills(built: PipelineStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.pipelines.backfills.MOST_OPEN", 2)
    for _ in range(2):
        request(built)
    with pytest.raises(Conflict, match="open backfills"):
        request(built)


def test_a_run_after_a_backfill_goes_on_from_its_pins(built: PipelineStage) -> None:
    """A chunk moves the checkpoint as any run does: the changes of the inputs are part of the same commit."""
    request(built)
    built.lake.append(CHANGE)
    attempt = pinned(built)
    attempt.commit()
    attempt.report()
    assert attempt.pinned is not None
    assert built.view().checkpoint == attempt.pinned.until
    assert built.view().behind == 0


def test_a_request_that_comes_again_with_its_key_leads_to_the_same_backfill(built: PipelineStage) -> None:
    first = request(built, idempotency_key="task-1", chunks=2)
    assert request(built, idempotency_key="task-1", chunks=2) == first
    backfills(built).change("orders", DAILY, first, BackfillStatus.CANCELED)
    assert get(built, request(built, idempotency_key="task-1", chunks=2)).backfill.status == "canceled"
    others = {request(built, idempotency_key="task-2"), request(built), request(built)}
    assert len({first, *others}) == 4
    assert len(backfills(built).list("orders", DAILY, limit=10, cursor=None).items) == 4


def test_the_key_of_another_user_leads_to_no_backfill_of_this_one(built: PipelineStage) -> None:
    first = request(built, idempotency_key="k")
    body = BackfillRequest(where="id BETWEEN 1 AND 4", idempotency_key="k")
    assert backfills(built).request("orders", DAILY, body, "eve").backfill.id != first
    assert backfills(built).request("orders", DAILY, body, None).backfill.id != first


def test_a_key_that_was_used_for_another_backfill_is_refused(built: PipelineStage) -> None:
    request(built, idempotency_key="k")
    others: list[dict[str, Any]] = [{"where": "id = 7"}, {"chunk_seconds": 7}, {"chunks": 1}]
    for changes in others:
        with pytest.raises(Invalid, match="was used for another backfill"):
            request(built, **changes, idempotency_key="k")


def test_a_dry_run_with_a_key_stores_nothing(built: PipelineStage) -> None:
    dry = request(built, idempotency_key="k", dry_run=True)
    assert request(built, idempotency_key="k") != dry
    assert len(backfills(built).list("orders", DAILY, limit=10, cursor=None).items) == 1


def test_of_two_requests_at_once_with_one_key_one_is_stored(
    built: PipelineStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked for the key before either has stored its backfill."""
    store = PipelineBackfills._store
    ids: list[BackfillId | None] = []

    def store_later(self: PipelineBackfills, *arguments: Any) -> Any:
        if not ids:
            ids.append(None)
            ids.append(request(built, idempotency_key="k"))
        return store(self, *arguments)

    monkeypatch.setattr(PipelineBackfills, "_store", store_later)
    assert request(built, idempotency_key="k") == ids[1]
    assert len(backfills(built).list("orders", DAILY, limit=10, cursor=None).items) == 1
