"""The collections of jobs, optimizers and operations, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import (
    Conflict,
    NotFound,
)
from catalog.jobs.job import CommitRecord, JobId, JobKind, JobStatus, LeaseToken
from catalog.jobs.operation import BLOCKED, WAITING, BatchId
from catalog.names import RelationId
from catalog.ports.store import Database
from catalog.ports.work import JobFilter
from firn.protocol.operations import OperationKind, OperationStatus
from tests.factories import (
    LAKE,
    LATER,
    NOW,
    a_job,
    an_operation,
    an_optimizer,
)


def test_a_job_comes_back_as_it_was_put(database: Database) -> None:
    job = a_job(JobStatus.COMMITTING, params={"state": "1..2"}, progress={"done": 1}, committed_snapshot_id=2**62)
    with database.writing() as uow:
        assert uow.jobs.add(job)
        assert uow.jobs.get(job.id) == uow.jobs.lock(job.id) == uow.jobs.active_of(job.relation_id) == job
        ended = a_job(JobStatus.SUCCEEDED, id=job.id, subject_id=job.relation_id, result={"rows": 5}, ended_at=LATER)
        uow.jobs.put(ended)
        assert uow.jobs.get(job.id) == ended
        assert uow.jobs.active_of(job.relation_id) is None
        with pytest.raises(NotFound):
            uow.jobs.get(a_job().id)


def test_kinds_are_found_for_jobs_that_are_kept(database: Database) -> None:
    jobs = [a_job(kind=JobKind.MERGE), a_job(kind=JobKind.EXPIRE)]
    with database.writing() as uow:
        for job in jobs:
            uow.jobs.add(job)
        wanted = {job.id for job in [*jobs, a_job()]}
        assert uow.jobs.kinds_of(wanted) == {jobs[0].id: JobKind.MERGE, jobs[1].id: JobKind.EXPIRE}
        assert uow.jobs.kinds_of(set()) == {}


@pytest.mark.parametrize("status", list(JobStatus))
def test_a_table_has_one_active_job(database: Database, status: JobStatus) -> None:
    job = a_job(status)
    with database.writing() as uow:
        assert uow.jobs.add(job)
        assert uow.jobs.add(a_job(subject_id=job.relation_id)) is not status.is_active
        assert uow.jobs.add(a_job())


def test_the_oldest_pending_job_of_the_group_and_kinds_is_next(database: Database) -> None:
    with database.writing() as uow:
        jobs = [a_job(group="other"), a_job(kind=JobKind.REWRITE), a_job(JobStatus.RUNNING), a_job(), a_job()]
        jobs = [*jobs, a_job(deadline=LATER)]
        for job in jobs:
            uow.jobs.add(job)
        assert uow.jobs.next_pending("default", [JobKind.MERGE], requested=False, lock=True) == jobs[3]
        assert uow.jobs.next_pending("default", [JobKind.MERGE, JobKind.REWRITE], requested=False, lock=True) == jobs[1]
        assert uow.jobs.next_pending("default", [], requested=False, lock=True) is None
        assert uow.jobs.next_pending("third", list(JobKind), requested=False, lock=True) is None


def test_a_run_with_code_waits_for_an_optimizer_that_runs_code(database: Database) -> None:
    with database.writing() as uow:
        jobs = [a_job(params={"code": True}), a_job(params={"code": False}), a_job()]
        for job in jobs:
            uow.jobs.add(job)
        kinds = [JobKind.MERGE]
        assert uow.jobs.next_pending("default", kinds, requested=False, lock=True) == jobs[1]
        assert uow.jobs.next_pending("default", kinds, requested=False, allow_code=True, lock=True) == jobs[0]


def test_jobs_are_listed_newest_first_and_active_ones_counted(database: Database) -> None:
    with database.writing() as uow:
        jobs = [a_job(), a_job(JobStatus.FAILED), a_job(kind=JobKind.EXPIRE)]
        for job in jobs:
            uow.jobs.add(job)

        def listed(**which: Any) -> list[JobId]:
            return [listed_job.id for listed_job in uow.jobs.list(JobFilter(**which), limit=9).items]

        table = jobs[0].table.name
        assert listed() == [job.id for job in reversed(jobs)]
        assert listed(statuses=[JobStatus.FAILED]) == [jobs[1].id]
        assert listed(kinds=[JobKind.EXPIRE]) == [jobs[2].id]
        assert listed(relation_id=jobs[0].relation_id) == [jobs[0].id]
        assert listed(group=jobs[0].group) == listed(search=f".{table.upper()}") == listed()
        assert listed(group="nobody's") == listed(search="100%") == []
        first = uow.jobs.list(limit=2)
        rest = uow.jobs.list(limit=2, cursor=first.next_cursor)
        assert [listed_job.id for listed_job in rest.items] == [jobs[0].id]
        assert uow.jobs.counts() == {JobStatus.PENDING: 2}
        assert uow.jobs.with_status([JobStatus.PENDING]) == [jobs[0], jobs[2]]


def test_a_job_commits_to_a_relation_once_under_each_number(database: Database) -> None:
    job = a_job()
    record = CommitRecord(token=LeaseToken("t"), snapshot_id=7, digest="d")
    second = CommitRecord(token=LeaseToken("t"), snapshot_id=8, digest="f", number=2)
    with database.writing() as uow:
        uow.jobs.record_commit(job.id, job.relation_id, record)
        other = CommitRecord(token=LeaseToken("u"), snapshot_id=None, digest="e")
        with pytest.raises(Conflict):
            uow.jobs.record_commit(job.id, job.relation_id, other)
        uow.jobs.record_commit(job.id, RelationId(uuid4()), other)
        uow.jobs.record_commit(job.id, job.relation_id, second)
        assert uow.jobs.recorded_commits(job.id, job.relation_id) == [record, second]
        assert uow.jobs.recorded_commits(a_job().id, job.relation_id) == []


def test_a_log_keeps_its_lines_in_order(database: Database) -> None:
    job = a_job()
    with database.writing() as uow:
        uow.jobs.add_log(job.id, ["one", "two"], NOW)
        uow.jobs.add_log(job.id, ["three"], LATER)
        assert uow.jobs.log(job.id) == [(NOW, "one"), (NOW, "two"), (LATER, "three")]


def test_an_optimizer_is_seen_as_it_was_last_put(database: Database) -> None:
    optimizer = an_optimizer(facts={"spark": "4.1"})
    draining = an_optimizer(
        draining=True, last_seen_at=LATER, slots=4, memory={"rss": 2**40}, reason="moving", launch="l"
    )
    with database.writing() as uow:
        for registered in (optimizer, draining):
            uow.optimizers.put(registered)
            assert uow.optimizers.find(registered.id) == registered
        assert uow.optimizers.list() == [draining]
        uow.optimizers.remove(optimizer.id)
        assert uow.optimizers.find(optimizer.id) is None


def test_what_an_optimizer_says_and_what_it_is_asked_do_not_undo_each_other(database: Database) -> None:
    """Of two that read the row, change it and put it back, one would take the other's word away."""
    optimizer = an_optimizer(memory={"rss": 1})
    with database.writing() as uow:
        uow.optimizers.put(optimizer)
        draining = uow.optimizers.ask(optimizer.id, draining=True, stopping=True, reason="moving")
        heard = uow.optimizers.record_heartbeat(optimizer.id, LATER, {})
        assert draining == replace(optimizer, draining=True, stopping=True, reason="moving")
        assert heard == replace(draining, last_seen_at=LATER)
        assert uow.optimizers.record_heartbeat(optimizer.id, LATER, {"rss": 2}) == replace(heard, memory={"rss": 2})
        assert uow.optimizers.record_heartbeat("gone", LATER, {}) is None
        assert uow.optimizers.ask("gone", draining=True, stopping=False, reason=None) is None


def test_operations_are_journaled(database: Database) -> None:
    running = an_operation()
    done = an_operation(
        id=running.id, status=OperationStatus.SUCCEEDED, message="it waits" * 20, journal={"step": [1]}, ended_at=LATER
    )
    with database.writing() as uow:
        uow.operations.add(running)
        uow.operations.add(an_operation(status=OperationStatus.FAILED))
        assert uow.operations.unfinished() == [running]
        uow.operations.put(done)
        assert uow.operations.get(running.id) == done
        assert uow.operations.unfinished() == []
        assert uow.operations.list(limit=1, catalog=LAKE).next_cursor is not None
        with pytest.raises(NotFound):
            uow.operations.get(an_operation().id)


def test_operations_of_a_batch_move_together(database: Database) -> None:
    batch = BatchId(uuid4())
    waiting, running, paused, ended, check = (
        an_operation(batch=batch, target=f"db.t{number}", phase=phase, status=status)
        for number, (phase, status) in enumerate(
            [
                (WAITING, OperationStatus.RUNNING),
                ("reading footers", OperationStatus.RUNNING),
                ("reading footers", OperationStatus.PAUSED),
                ("done", OperationStatus.SUCCEEDED),
                (BLOCKED, OperationStatus.FAILED),
            ]
        )
    )
    other = an_operation(target="db.other", cancel_requested=True)
    alone = an_operation(target="db.alone")
    with database.writing() as uow:
        uow.operations.add_all([waiting, running, paused, ended, check])
        uow.operations.add(alone)
        uow.operations.add(other)
        assert [operation.target for operation in uow.operations.list(batch=batch, limit=2).items] == ["db.t0", "db.t1"]
        cursor = uow.operations.list(batch=batch, limit=2).next_cursor
        rest = uow.operations.list(batch=batch, limit=9, cursor=cursor).items
        assert list(rest) == [paused, ended, check]
        following = uow.operations.next([OperationKind.UPGRADE], but_for=[running.id], limit=9)
        assert list(following) == [other, alone, waiting]
        assert uow.operations.working_on(LAKE, ["db.t2", "db.t3", "db.none"]) == {"db.t2": paused}
        assert set(uow.operations.targets(batch)) == {(LAKE, f"db.t{number}") for number in range(5)}
        ended_ones = {"upgraded": 1, "blocked": 1}
        assert uow.operations.pause_all(batch, LATER) == 2
        assert uow.operations.tally(batch).outcomes == {"paused": 3, **ended_ones}
        assert uow.operations.resume_all(batch, LATER) == 3
        assert uow.operations.tally(batch).outcomes == {"waiting": 1, "running": 2, **ended_ones}
        assert uow.operations.cancel_all(batch, LATER) == 3
        assert uow.operations.tally(batch).outcomes == {"canceled": 1, "running": 2, **ended_ones}
        assert uow.operations.get(running.id).cancel_requested
        assert uow.operations.get(alone.id) == alone
        with pytest.raises(NotFound):
            uow.operations.tally(BatchId(alone.id))
