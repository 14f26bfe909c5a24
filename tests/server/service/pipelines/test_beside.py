"""Chunks beside live runs in the server's transactions: rules 8.24 to 8.28 of docs/protocols.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.errors import CommitRefused, WriterFenced
from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind
from catalog.pipelines.backfill import Backfill
from firn.protocol.backfills import BackfillStatus
from firn.protocol.beside import ChunkState
from tests.factories import LAKE
from tests.server.lake import PLAIN
from tests.server.service.pipelines.side import (
    STORE,
    begin,
    done,
    get,
    lease_side,
    request,
    run_live,
    tick,
)
from tests.server.service.pipelines.stage import DAILY, PipelineStage


def test_jobs_compute_chunks_beside_runs_until_all_are_committed(built: PipelineStage) -> None:
    backfill_id = request(built, beside=2)
    first, two = lease_side(built), lease_side(built)
    assert built.lake.services.jobs.take(built.optimizer, [JobKind.PIPELINE]) is None
    view = built.lake.services.pipeline_backfills.get("orders", DAILY, backfill_id)
    assert (view.backfill.beside, len(view.jobs)) == (2, 2)
    before = built.writer()
    assert [first.take(), two.take()] == [1, 2]
    assert built.lake.services.pipeline_backfills.get("orders", DAILY, backfill_id).running == {1, 2}
    assert [first.commit(), two.commit()] == [ChunkState.DONE, ChunkState.DONE]
    assert [first.take(), two.take()] == [3, 4]
    assert first.commit(rows=False) is ChunkState.DONE
    assert done(built, backfill_id) == [1, 2, 3]
    assert first.take() is None
    assert "other jobs" in first.reason
    assert two.commit() is ChunkState.DONE
    ended = get(built, backfill_id)
    assert (ended.status, ended.finished_by) == (BackfillStatus.FINISHED, 0)
    assert (built.writer().position, built.writer().epoch) == (before.position, before.epoch)  # no checkpoint moved
    first.report()
    two.report()
    assert tick(built) == 0


def test_a_chunk_reads_at_the_checkpoint_and_not_at_now(built: PipelineStage) -> None:
    _, side = begin(built)
    checkpoint = built.view().checkpoint
    assert side.taken_chunk is not None
    assert side.taken_chunk.at == checkpoint
    built.lake.append(PLAIN)
    assert side.take() == 1
    assert side.taken_chunk.at == checkpoint  # no live run has taken the new snapshot
    side.commit()
    run_live(built)
    assert side.take() == 2
    assert side.taken_chunk.at == built.view().checkpoint != checkpoint


def test_a_chunk_is_refused_after_a_live_commit_of_which_it_does_not_know(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    position = side.look()
    run_live(built)
    assert side.commit(position) is ChunkState.MOVED
    assert side.commit(position, rows=False) is ChunkState.MOVED  # that nothing differs is checked as a commit, too
    assert done(built, backfill_id) == []
    assert side.commit() is ChunkState.DONE


def test_the_take_tells_the_version_after_which_written_keys_are_left_out(built: PipelineStage) -> None:
    def read_version() -> int:
        with built.lake.database.reading() as uow:
            relation = uow.relations.find(LAKE, DAILY)
            assert relation is not None
            return uow.keyed.get(relation.id).version

    _, side = begin(built)
    assert side.taken_chunk is not None
    assert side.taken_chunk.take.version == read_version()
    run_live(built)
    assert side.taken_chunk.take.version < read_version()
    side.take()
    assert side.taken_chunk.take.version == read_version()


def test_live_runs_write_unchanged_rows_while_a_backfill_is_open(built: PipelineStage) -> None:
    def pin() -> bool:
        attempt = built.begin()
        attempt.pin()
        built.lake.services.jobs.cancel(attempt.lease.job_id)
        assert attempt.pinned is not None
        return attempt.pinned.writes_unchanged

    assert pin() is False
    backfill_id, change = request(built), built.lake.services.pipeline_backfills.change
    for job in built.lake.services.pipeline_backfills.get("orders", DAILY, backfill_id).jobs:
        assert job
    sides = [lease_side(built), lease_side(built)]
    assert pin() is True
    change("orders", DAILY, backfill_id, BackfillStatus.PAUSED)
    assert pin() is True  # a job that works now may still commit its chunk
    assert sides[0].take() is None
    change("orders", DAILY, backfill_id, BackfillStatus.CANCELED)
    assert pin() is False


def test_a_run_that_pinned_before_the_request_commits_nothing(built: PipelineStage) -> None:
    """It would leave out unchanged rows, so chunks would bring back their old values."""
    attempt = built.begin()
    attempt.pin()
    request(built)
    with pytest.raises(WriterFenced):
        attempt.commit()
    with pytest.raises(WriterFenced):
        attempt.move()


def test_a_failed_backfill_fences_runs_again_when_it_goes_on_and_its_old_takes_are_void(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    with built.lake.database.writing() as uow:
        failed = uow.backfills.get(backfill_id)
        uow.backfills.put(fail(failed))
    assert side.commit() is ChunkState.VOID
    built.request()
    attempt = built.lease()
    if "backfill" in built.job(attempt.lease.job_id).params:
        attempt = built.lease()
    pinned = attempt.pin()
    assert pinned.writes_unchanged is False
    built.lake.services.pipeline_backfills.change("orders", DAILY, backfill_id, BackfillStatus.ACTIVE)
    with pytest.raises(WriterFenced):
        attempt.commit()
    assert side.commit() is ChunkState.VOID
    assert side.take() == 1


def fail(backfill: Backfill) -> Backfill:
    return replace(backfill, status=BackfillStatus.FAILED, error="it failed")


def test_a_chunk_is_refused_after_a_reset_of_the_table(built: PipelineStage) -> None:
    """Its checkpoint is no longer in the history of the table."""
    backfill_id, side = begin(built)
    built.lake.services.pipeline_runs.reset("orders", DAILY)
    assert side.commit() is ChunkState.VOID
    assert side.take() is None
    assert "computes all rows" in side.reason
    assert done(built, backfill_id) == []


def test_a_chunk_is_refused_by_a_new_table_of_the_same_name(built: PipelineStage) -> None:
    """The snapshot whose rows it has compared is in the history of the old one."""
    _, side = begin(built)
    built.lake.services.keyed.drop(LAKE, DAILY)
    built.create_target()
    assert side.commit("none", rows=False) is ChunkState.VOID
    run_live(built)
    assert side.commit() is ChunkState.VOID


def test_stores_of_keyed_tables_are_never_set_back(built: PipelineStage) -> None:
    """So the snapshot of a chunk stays in the history, and a chunk that is done stays done."""
    before = built.lake.metadata(STORE)["current-snapshot-id"]
    backfill_id, side = begin(built)
    side.commit()
    back = [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": before}]
    with pytest.raises(CommitRefused, match="cannot be set back"):
        built.lake.commit(TableCommit(name=STORE, updates=back))
    assert done(built, backfill_id) == [1]


def test_a_chunk_is_done_by_its_snapshot_and_not_by_a_checkpoint(built: PipelineStage) -> None:
    backfill_id, side = begin(built)
    side.commit()
    chunk = get(built, backfill_id).chunks[0]
    assert chunk.beside is not None
    assert chunk.beside.snapshot == built.lake.metadata(STORE)["current-snapshot-id"]
    assert (chunk.done_by, chunk.claim) == (None, None)
    run_live(built)
    assert done(built, backfill_id) == [1]
