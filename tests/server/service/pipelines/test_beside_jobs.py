"""Jobs beside live runs that die, repeat requests, or do what is not theirs (docs/protocols.md, rules 8.24 to 8.28)."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import CommitRefused, Conflict, LeaseLost, NotFound, WriterFenced
from catalog.pipelines.beside import check_beside
from firn.protocol.backfills import BackfillStatus, ClaimRequest
from firn.protocol.beside import BACKFILL_KEY, ChunkState, CommitChunk
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import PublishRun, TableChanges, TableDefinition
from tests.server.lake import appended
from tests.server.service.pipelines.side import (
    STORE,
    as_changes,
    begin,
    done,
    get,
    lease_side,
    request,
    take_run,
    tick,
)
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage


def test_a_repeated_commit_of_a_chunk_is_applied_once(built: PipelineStage) -> None:
    """Its answer was lost, or the optimizer was killed after it had sent the request."""
    backfill_id, side = begin(built)
    sent = side.build()
    assert side.send(sent) is ChunkState.DONE
    head = built.lake.metadata(STORE)["current-snapshot-id"]
    assert side.send(sent) is ChunkState.DONE
    assert side.send(side.build()) is ChunkState.DONE  # built again
    assert built.lake.metadata(STORE)["current-snapshot-id"] == head
    assert done(built, backfill_id) == [1]


def test_a_chunk_of_a_dead_job_is_taken_by_another_one(built: PipelineStage) -> None:
    backfill_id, side = begin(built, beside=1)
    late = side.build()
    built.lake.services.jobs.cancel(side.lease.job_id)
    with pytest.raises(LeaseLost):
        side.send(late)
    assert tick(built) == 1
    other = lease_side(built)
    assert other.take() == 1
    assert get(built, backfill_id).chunks[0].attempts == 2
    assert other.commit() is ChunkState.DONE


def test_a_second_take_voids_the_first_one(built: PipelineStage) -> None:
    """An earlier attempt of the job sleeps, and wakes up after the next one has taken the chunk."""
    _, side = begin(built)
    old = side.build()
    assert side.take() == 1
    assert side.send(old) is ChunkState.VOID
    assert side.commit() is ChunkState.DONE


def test_a_chunk_that_two_jobs_could_not_compute_fails_its_backfill(built: PipelineStage) -> None:
    backfill_id, side = begin(built, beside=1)
    built.lake.services.jobs.cancel(side.lease.job_id)
    tick(built)
    side = lease_side(built)
    side.take()
    built.lake.services.jobs.cancel(side.lease.job_id)
    tick(built)
    assert lease_side(built).take() is None
    failed = get(built, backfill_id)
    assert (failed.status, "chunk 1" in (failed.error or "")) == (BackfillStatus.FAILED, True)


def test_a_backfill_whose_jobs_all_fail_does_not_start_them_for_ever(built: PipelineStage) -> None:
    backfill_id = request(built, beside=1)
    for _ in range(3):
        side = lease_side(built)
        built.lake.services.jobs.refuse(side.lease, Conflict("the owner lacks a right"))
        tick(built)
    failed = get(built, backfill_id)
    assert (failed.status, "the owner lacks a right" in (failed.error or "")) == (BackfillStatus.FAILED, True)
    built.lake.services.pipeline_backfills.change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    assert lease_side(built).take() == 1


def test_no_chunk_comes_between_the_claim_of_a_full_run_and_its_commit(built: PipelineStage) -> None:
    """The run has compared its rows with those of the table before, and leaves out those that are right."""
    backfill_id, side = begin(built)
    built.request(full=True)
    attempt = take_run(built)
    pinned = attempt.pin()
    assert side.take() == 1  # until the claim
    claim = {"table": str(DAILY), "epoch": pinned.writer.epoch, "checkpoint": pinned.until.id}
    built.lake.services.pipeline_backfills.claim_all(attempt.lease, ClaimRequest.model_validate(claim))
    assert side.commit() is ChunkState.VOID
    assert side.take() is None
    assert "computes all rows" in side.reason
    attempt.commit()
    attempt.report()
    assert side.take() is None
    assert get(built, backfill_id).status is BackfillStatus.FINISHED


def test_chunks_go_on_after_a_full_run_that_has_died(built: PipelineStage) -> None:
    _, side = begin(built)
    built.request(full=True)
    attempt = take_run(built)
    pinned = attempt.pin()
    claim = {"table": str(DAILY), "epoch": pinned.writer.epoch, "checkpoint": pinned.until.id}
    built.lake.services.pipeline_backfills.claim_all(attempt.lease, ClaimRequest.model_validate(claim))
    built.lake.services.jobs.report(attempt.lease, None, error=None, result={})  # without a commit
    assert side.take() is None
    tick(built)
    with pytest.raises(WriterFenced):
        attempt.commit()  # a late request
    assert side.take() == 1
    assert side.commit() is ChunkState.DONE


def test_a_paused_backfill_gives_no_chunks_and_a_cancelled_one_takes_none(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    change = built.lake.services.pipeline_backfills.change
    change("orders", DAILY, backfill_id, BackfillStatus.PAUSED)
    assert side.commit() is ChunkState.DONE
    assert side.take() is None
    assert tick(built) == 0
    change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    assert side.take() == 2
    change("orders", DAILY, backfill_id, BackfillStatus.CANCELED)
    assert side.commit() is ChunkState.VOID
    assert done(built, backfill_id) == [1]


def test_live_runs_take_no_chunks_of_it(built: PipelineStage) -> None:
    request(built)
    built.request()
    attempt = take_run(built)
    assert attempt.pin().chunks is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"key": [], "mode": "overwrite"}, "has no key"),
        ({"key": ["id", "n"]}, "does not name one key"),
        ({"consistent": ["mart.daily", "mart.rank"]}, "moves together"),
        ({"audit": "hold"}, "wait for approval"),
        ({"validators": [{"kind": "not_null", "name": "id", "columns": ["id"], "severity": "drop"}]}, "drop rows"),
    ],
)
def test_tables_that_would_lose_rows_have_no_chunks_beside_their_runs(changes: dict[str, Any], error: str) -> None:
    definition = TableDefinition.model_validate({**DEFINED, **changes})
    with pytest.raises(Conflict, match=error):
        check_beside(definition, is_built=True)


def test_a_backfill_fails_if_its_table_gets_a_scope_that_names_no_key(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    side.commit()
    built.put({**DEFINED, "audit": "hold"})
    assert side.take() is None
    assert "wait for approval" in (get(built, backfill_id).error or "")


def test_a_job_beside_runs_may_not_do_what_runs_do(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    services, writer = built.lake.services, built.writer()
    step = {"table": str(DAILY), "epoch": writer.epoch, "start": writer.position, "end": "x"}
    for act in (
        lambda: services.pipeline_pins.pin(side.lease, {DAILY: "a" * 64}),
        lambda: services.pipeline_pins.move(side.lease, MoveCheckpoint.model_validate(step)),
        lambda: services.run_publishing.publish(side.lease, PublishRun.model_validate({"moves": [step]})),
    ):
        with pytest.raises(Conflict, match="computes chunks of a backfill"):
            act()
    with pytest.raises(CommitRefused):
        services.pipeline_runs.release(side.lease, [appended(STORE, built.lake.metadata(STORE))])
    with pytest.raises(Conflict, match="computed chunks of a backfill"), built.lake.database.writing() as uow:
        services.pipeline_runs.retry(uow, built.job(side.lease.job_id))
    services.jobs.cancel(side.lease.job_id)
    assert built.writer() == writer  # no live run is fenced
    assert get(built, backfill_id).status is BackfillStatus.ACTIVE


def test_a_run_takes_and_commits_no_chunks(built: PipelineStage) -> None:
    request(built)
    built.request()
    run = take_run(built)
    with pytest.raises(Conflict, match="computes no chunks"):
        built.lake.services.beside_chunks.take(run.lease, "a" * 64)


def test_hostile_commits_of_chunks_are_refused(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    metadata, position = built.lake.metadata(STORE), built.writer().position
    assert side.taken_chunk is not None
    take = side.taken_chunk.take.id

    def send(changes: TableChanges) -> ChunkState:
        return side.send(CommitChunk(take=take, position=position, change=changes))

    rows = appended(STORE, metadata, summary={BACKFILL_KEY: "b/1"})
    with pytest.raises(CommitRefused, match="not of"):
        send(as_changes(rows, table="db.orders"))
    with pytest.raises(CommitRefused, match="and no position"):
        send(as_changes(appended(STORE, metadata)))
    stolen = {BACKFILL_KEY: "b/1", "firn.writer-id": built.writer().name, "firn.writer-epoch": "1"}
    stolen |= {"firn.position-from": position, "firn.position": "x"}
    with pytest.raises(CommitRefused, match="and no position"):
        send(as_changes(appended(STORE, metadata, summary=stolen)))
    removal = [*rows.updates, {"action": "remove-snapshots", "snapshot-ids": [1]}]
    with pytest.raises(CommitRefused, match="and no position"):
        send(as_changes(rows, updates=removal))
    assert side.send(CommitChunk(take="another", position=position)) is ChunkState.VOID
    with pytest.raises(Conflict, match="query of"):
        side.take("b" * 64)
    assert done(built, backfill_id) == []
    built.lake.services.pipelines.drop("orders")
    with pytest.raises(NotFound):
        side.take()
