"""Which ended jobs are forgotten, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import NotFound
from catalog.jobs.job import REMEMBERED_JOBS, CommitRecord, Job, JobId, JobKind, JobStatus, LeaseToken, withdraw_job
from catalog.names import RelationId
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.orphan_removal import OrphanBatch
from firn.protocol.orphans import BatchState
from server.background import cleanup
from server.background.cleanup import Cleanup
from tests.factories import LAKE, NOW, a_job

LONG_AGO = NOW - timedelta(days=400)


def ended(uow: UnitOfWork, relation_id: RelationId, kind: JobKind = JobKind.MERGE, **more: Any) -> Job:
    """A job that has come and gone."""
    job = a_job(kind=kind, subject_id=relation_id)
    assert uow.jobs.add(job)
    job = replace(job, **{"status": JobStatus.SUCCEEDED, "ended_at": LONG_AGO, **more})
    uow.jobs.put(job)
    return job


def left(database: Database) -> list[JobId]:
    """Oldest first."""
    with database.reading() as uow:
        return [job.id for job in reversed(uow.jobs.list(limit=1_000).items)]


def test_the_last_of_each_kind_and_table_stay_however_old(database: Database) -> None:
    table, other = RelationId(uuid4()), RelationId(uuid4())
    with database.writing() as uow:
        rewrite = ended(uow, table, JobKind.REWRITE)
        merges = [ended(uow, table) for _ in range(REMEMBERED_JOBS + 3)]
        elsewhere = ended(uow, other)
        assert uow.jobs.remove_ended(NOW, limit=100) == 3
        assert [job.id for job in uow.jobs.last_of_each_kind(table, limit=REMEMBERED_JOBS)] == [
            *(job.id for job in reversed(merges[3:])),
            rewrite.id,
        ]
    assert left(database) == [job.id for job in (rewrite, *merges[3:], elsewhere)]


def test_what_ended_since_stays_and_so_does_what_is_active(database: Database) -> None:
    table = RelationId(uuid4())
    with database.writing() as uow:
        for _ in range(REMEMBERED_JOBS + 3):
            ended(uow, table, ended_at=NOW)
        uow.jobs.add(a_job(JobStatus.UNKNOWN, subject_id=table))
        assert uow.jobs.remove_ended(NOW, limit=100) == 0


def test_jobs_that_never_began_are_not_remembered(database: Database) -> None:
    table = RelationId(uuid4())
    with database.writing() as uow:
        done = ended(uow, table)
        for _ in range(REMEMBERED_JOBS + 1):
            waiting = a_job(subject_id=table)
            uow.jobs.add(waiting)
            uow.jobs.put(withdraw_job(waiting, "the table is blocked", LONG_AGO))
        assert uow.jobs.remove_ended(NOW, limit=100) == REMEMBERED_JOBS + 1
    assert left(database) == [done.id]


def test_logs_and_commits_go_with_their_job(database: Database) -> None:
    table = RelationId(uuid4())
    record = CommitRecord(token=LeaseToken("t"), snapshot_id=7, digest="d")
    with database.writing() as uow:
        old, *_, last = [ended(uow, table) for _ in range(REMEMBERED_JOBS + 1)]
        for job in (old, last):
            uow.jobs.add_log(job.id, ["line"], NOW)
            uow.jobs.record_commit(job.id, table, record)
        assert uow.jobs.remove_ended(NOW, limit=100) == 1
        with pytest.raises(NotFound):
            uow.jobs.get(old.id)
        assert (uow.jobs.log(old.id), uow.jobs.recorded_commits(old.id, table)) == ([], [])
        assert len(uow.jobs.log(last.id)) == len(uow.jobs.recorded_commits(last.id, table)) == 1


def a_batch(job: Job, state: BatchState, **more: Any) -> OrphanBatch:
    batch = OrphanBatch(
        id=uuid4(),
        catalog=LAKE,
        relation_id=job.relation_id,
        job_id=job.id,
        state=state,
        report="file:/r",
        files=1,
        bytes=1,
        taken_at=LONG_AGO,
    )
    return replace(batch, **more)


@pytest.mark.parametrize("state", [BatchState.MOVING, BatchState.ASIDE, BatchState.NOTED, BatchState.DELETING])
def test_a_job_stays_while_what_it_has_set_aside_is_not_deleted(database: Database, state: BatchState) -> None:
    table = RelationId(uuid4())
    with database.writing() as uow:
        old, *_ = [ended(uow, table, JobKind.REMOVE_ORPHANS) for _ in range(REMEMBERED_JOBS + 1)]
        batch = a_batch(old, state)
        uow.orphans.add(batch)
        assert uow.jobs.remove_ended(NOW, limit=100) == 0
        uow.orphans.put(replace(batch, state=BatchState.DELETED, deleted_by=old.id, deleted_at=LONG_AGO))
        assert uow.jobs.remove_ended(NOW, limit=100) == 1
        assert uow.orphans.list(relation_id=table, limit=9).items == []


def test_what_was_put_back_stays_known_when_the_job_is_forgotten(database: Database) -> None:
    """It is never taken for an orphan again."""
    table = RelationId(uuid4())
    with database.writing() as uow:
        old, *_ = [ended(uow, table, JobKind.REMOVE_ORPHANS) for _ in range(REMEMBERED_JOBS + 1)]
        uow.orphans.add(a_batch(old, BatchState.DELETED, deleted_by=old.id, kept=("file:/kept",)))
        assert uow.jobs.remove_ended(NOW, limit=100) == 1
        assert uow.orphans.find_restored(table) == {"file:/kept"}


def test_of_a_table_that_is_gone_nothing_is_remembered(database: Database) -> None:
    table = RelationId(uuid4())
    with database.writing() as uow:
        ended(uow, table)
        uow.dropped.delete_state(table)
        assert uow.jobs.remove_ended(NOW, limit=100) == 1


def test_old_jobs_are_forgotten_in_small_transactions_as_many_as_a_run_may(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "JOBS_AT_ONCE", 2)
    monkeypatch.setattr(cleanup, "MOST_BATCHES", 3)
    table = RelationId(uuid4())
    with database.writing() as uow:
        jobs = [ended(uow, table, ended_at=LONG_AGO + timedelta(days=day)) for day in range(REMEMBERED_JOBS + 7)]
    kept = timedelta(days=30)
    assert [Cleanup(database, kept).activate().jobs for _ in range(3)] == [6, 1, 0]
    assert left(database) == [job.id for job in jobs[7:]]
