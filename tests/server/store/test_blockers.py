"""Blockers, and what decisions look back on, in both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.job import JobKind, JobStatus
from catalog.names import RelationId
from catalog.ports.store import Database
from tests.factories import LATER, NOW, a_job

TABLE, OTHER = RelationId(uuid4()), RelationId(uuid4())


def a_blocker(**changes: Any) -> Blocker:
    values: dict[str, Any] = {"id": BlockerId(uuid4()), "relation_id": TABLE, "reason": "a load", "created_at": NOW}
    return Blocker(**values | {"until": LATER, **changes})


def test_blockers_come_back_until_they_end(database: Database) -> None:
    first = a_blocker(kinds=frozenset({JobKind.MERGE, JobKind.CLEAN}), set_by="ann")
    second = a_blocker(created_at=NOW + timedelta(seconds=1), until=LATER + timedelta(hours=1))
    with database.writing() as uow:
        for blocker in (second, first):
            uow.blockers.add(blocker)
    with database.reading() as uow:
        assert uow.blockers.of([TABLE, OTHER], NOW) == {TABLE: [first, second]}
        assert uow.blockers.of([TABLE], LATER) == {TABLE: [second]}
        assert not uow.blockers.of([], NOW)


def test_one_blocker_is_removed_or_all_of_a_table(database: Database) -> None:
    mine, other = [a_blocker() for _ in range(3)], a_blocker(relation_id=OTHER)
    with database.writing() as uow:
        for blocker in (*mine, other):
            uow.blockers.add(blocker)
    with database.writing() as uow:
        assert uow.blockers.remove(TABLE, mine[0].id) == 1
        assert uow.blockers.remove(TABLE, other.id) == 0
        assert uow.blockers.remove(TABLE) == 2
        assert uow.blockers.of([TABLE, OTHER], NOW) == {OTHER: [other]}


def test_blockers_that_have_ended_are_forgotten(database: Database) -> None:
    kept = a_blocker(until=LATER)
    with database.writing() as uow:
        uow.blockers.add(a_blocker(until=LATER - timedelta(seconds=1)))
        uow.blockers.add(kept)
        assert uow.blockers.remove_before(LATER) == 1
        assert uow.blockers.of([TABLE], NOW) == {TABLE: [kept]}


def test_the_last_jobs_of_each_kind_are_found_behind_many_of_another(database: Database) -> None:
    """A weekly job would be planned again as soon as enough merges had come after it."""
    orphans = a_job(JobStatus.SUCCEEDED, subject_id=TABLE, kind=JobKind.REMOVE_ORPHANS, predicted={"files_before": 3})
    merges = [a_job(JobStatus.SUCCEEDED, subject_id=TABLE) for _ in range(5)]
    with database.writing() as uow:
        for job in (orphans, *merges, a_job(subject_id=OTHER)):
            uow.jobs.add(job)
    with database.reading() as uow:
        jobs = uow.jobs.last_of_each_kind(TABLE, limit=2)
    assert [job.id for job in jobs] == [merges[4].id, merges[3].id, orphans.id]
    assert jobs[2].predicted == {"files_before": 3}
