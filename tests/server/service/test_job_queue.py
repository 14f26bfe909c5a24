"""Which job comes out of the queue next, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from catalog.jobs.job import REQUESTED, Job, JobKind, JobStatus
from catalog.jobs.optimizer_group import Group, GroupName
from firn.protocol.leases import PROTOCOL
from server.service.jobs.job_queue import Search, find_next_job
from server.service.optimizers.optimizers import Registration
from tests.factories import NOW, a_job
from tests.server.lake import Lake

GROUP = GroupName("default")


def optimizer(lake: Lake, slots: int, group: str = GROUP) -> str:
    coming = Registration(group=group, host="h", pid=1, version="0", protocol=PROTOCOL, slots=slots)
    return lake.services.optimizers.register(coming).id


def pending(lake: Lake, *jobs: Job) -> None:
    """Jobs of tables that are there, as leasing looks at their policies."""
    with lake.services.database.writing() as uow:
        for job in jobs:
            assert uow.jobs.add(job)


@pytest.fixture(autouse=True)
def _whatever_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows and blockers have tests of their own; these jobs have no tables."""
    monkeypatch.setattr("server.service.jobs.leases.admit", lambda _uow, job: job)


def take_job(lake: Lake, by: str) -> Job | None:
    leased_job = lake.services.jobs.take(by, list(JobKind))
    return None if leased_job is None else leased_job.job


def test_the_earliest_deadline_is_first_and_of_two_the_one_that_was_planned_first(lake: Lake) -> None:
    late, middle, other, early = (a_job(deadline=NOW + timedelta(minutes=minute)) for minute in (3, 2, 2, 1))
    pending(lake, late, middle, other, early)
    mine = optimizer(lake, 8)
    assert [job.id for _ in range(4) if (job := take_job(lake, mine))] == [early.id, middle.id, other.id, late.id]


def test_long_jobs_leave_the_reserved_slots_to_short_ones(lake: Lake) -> None:
    long = [a_job(is_long=True, deadline=NOW - timedelta(hours=1)) for _ in range(4)]
    short = a_job(deadline=NOW + timedelta(hours=1))
    pending(lake, *long)
    mine = optimizer(lake, 3)
    assert [job.id for _ in range(2) if (job := take_job(lake, mine))] == [job.id for job in long[:2]]
    assert not lake.services.jobs.has_work(GROUP, list(JobKind))  # or its optimizers would ask again at once, for ever
    assert take_job(lake, mine) is None
    pending(lake, short)
    assert lake.services.jobs.has_work(GROUP, list(JobKind))
    taken_job = take_job(lake, mine)
    assert taken_job is not None
    assert taken_job.id == short.id


def test_a_group_of_one_slot_runs_long_jobs_too(lake: Lake) -> None:
    pending(lake, a_job(is_long=True))
    assert take_job(lake, optimizer(lake, 1)) is not None


def test_a_group_says_itself_how_many_slots_are_reserved(lake: Lake) -> None:
    lake.services.groups.change(Group(name=GROUP, reserved_slots=0))
    pending(lake, *(a_job(is_long=True) for _ in range(3)))
    mine = optimizer(lake, 3)
    assert all(take_job(lake, mine) for _ in range(3))


def test_slots_of_optimizers_that_fell_silent_do_not_count(lake: Lake) -> None:
    silent, mine = optimizer(lake, 10), optimizer(lake, 2)
    with lake.services.database.writing() as uow:
        uow.optimizers.record_heartbeat(silent, uow.now() - timedelta(hours=1), {})
    pending(lake, *(a_job(is_long=True) for _ in range(3)))
    assert take_job(lake, mine) is not None
    assert take_job(lake, mine) is None


def test_other_groups_do_not_count(lake: Lake) -> None:
    pending(lake, a_job(is_long=True, group="night", status=JobStatus.RUNNING), a_job(is_long=True))
    optimizer(lake, 10, "night")
    assert take_job(lake, optimizer(lake, 2)) is not None


def test_of_many_that_take_at_once_no_two_get_the_last_slot_for_long_jobs(lake: Lake) -> None:
    pending(lake, *(a_job(is_long=True) for _ in range(8)))
    workers = [optimizer(lake, 1) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: take_job(lake, workers[number % 4]), range(8)))
    assert sum(job is not None for job in jobs) == 3


def test_a_job_that_goes_back_keeps_its_deadline(lake: Lake) -> None:
    job = a_job(deadline=NOW - timedelta(days=1))
    pending(lake, job, a_job(deadline=NOW))
    mine = optimizer(lake, 1)
    assert take_job(lake, mine) is not None
    lake.services.optimizers.unregister(mine)
    again = take_job(lake, optimizer(lake, 1))
    assert again is not None
    assert (again.id, again.deadline) == (job.id, job.deadline)


def test_what_somebody_has_asked_for_goes_before_what_is_overdue_at_every_second_lease(lake: Lake) -> None:
    overdue = [a_job(deadline=NOW - timedelta(hours=hour)) for hour in (3, 2, 1)]
    requested = [
        a_job(deadline=NOW + timedelta(minutes=minute), params={"state": REQUESTED}) for minute in (1, 2, 3, 4)
    ]
    pending(lake, *overdue, *requested)
    mine = optimizer(lake, 8)
    order = [job.id for _ in range(7) if (job := take_job(lake, mine))]
    mixed = [requested[0], overdue[0], requested[1], overdue[1], requested[2], overdue[2], requested[3]]
    assert order == [job.id for job in mixed]


def test_what_was_asked_for_in_another_group_takes_no_turn(lake: Lake) -> None:
    requested = {"state": REQUESTED}
    pending(
        lake, a_job(group="night", params=requested), a_job(deadline=NOW - timedelta(hours=1)), a_job(params=requested)
    )
    assert take_job(lake, optimizer(lake, 1, "night")) is not None
    job = take_job(lake, optimizer(lake, 1))
    assert job is not None
    assert job.was_requested


def test_asking_whether_there_is_work_locks_nothing(lake: Lake) -> None:
    """It runs beside commits at the strictest level, where a lock on a row that has changed is an error."""
    job = a_job()
    pending(lake, job)
    mine = optimizer(lake, 1)
    with lake.services.database.reading() as uow:
        assert find_next_job(uow, Search(group=GROUP, kinds=list(JobKind), lease=timedelta(minutes=1))) == job
        assert take_job(lake, mine) is not None  # it would be skipped as locked
