"""A job that only waits for an optimizer keeps nothing more urgent from its table, and follows the table's policy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.errors import Conflict
from catalog.jobs.job import Job, JobId, JobKind, JobStatus
from catalog.planning import Due
from firn.protocol.leases import PROTOCOL
from server.service.optimizers.optimizers import Registration
from server.service.planning.planner import load_past_jobs
from tests.factories import LAKE, a_job
from tests.server.lake import CHANGE, ORDERS, Lake

DUE = {"firn.merge.max-pending-commits": "1"}
HOUR = timedelta(hours=1)


@pytest.fixture
def orders(lake: Lake) -> Lake:
    """With a table whose one pending commit makes a merge due."""
    lake.create_keyed(ORDERS, **DUE)
    lake.append(CHANGE)
    return lake


def waits(lake: Lake, kind: JobKind = JobKind.REMOVE_ORPHANS, *, until: timedelta = 6 * HOUR, **more: Any) -> Job:
    """A job of the table that was planned before its merge was due."""
    job = a_job(kind=kind, subject_id=lake.keyed().relation_id, deadline=datetime.now(UTC) + until, **more)
    with lake.services.database.writing() as uow:
        assert uow.jobs.add(job)
    return job


def job_of(lake: Lake, job_id: JobId) -> Job:
    with lake.services.database.reading() as uow:
        return uow.jobs.get(job_id)


def active(lake: Lake) -> Job | None:
    with lake.services.database.reading() as uow:
        return uow.jobs.active_of(lake.keyed().relation_id)


def optimizer(lake: Lake, group: str) -> str:
    return lake.services.optimizers.register(
        Registration(group=group, host="h", pid=1, version="0", protocol=PROTOCOL)
    ).id


def policy(lake: Lake, **settings: str) -> None:
    updates = {f"firn.optimize.{name}": value for name, value in settings.items()}
    lake.services.policies.change(LAKE, (), updates=updates, removals=())


def test_a_more_urgent_job_takes_the_place_of_one_that_waits(orders: Lake) -> None:
    old = waits(orders)
    assert isinstance(orders.services.planner.outlook(LAKE, ORDERS).decision, Due)
    assert orders.services.planner_loop.run_once().planned == 1
    merge, given_up = active(orders), job_of(orders, old.id)
    assert merge is not None
    assert merge.kind is JobKind.MERGE
    assert (given_up.status, given_up.was_overtaken) == (JobStatus.CANCELED, True)
    assert "a merge job took its place (it is more urgent)" in (given_up.error or "")


def test_who_waits_for_less_keeps_its_place(orders: Lake) -> None:
    """Its deadline is as near as that of the merge: giving way for ever would be starving."""
    old = waits(orders, until=timedelta(minutes=1))
    assert orders.services.planner_loop.run_once().planned == 0
    assert active(orders) == old


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.COMMITTING, JobStatus.UNKNOWN])
def test_what_has_begun_keeps_its_place(orders: Lake, status: JobStatus) -> None:
    old = waits(orders, status=status, attempt=1)
    assert orders.services.planner_loop.run_once().planned == 0
    with pytest.raises(Conflict, match=f"a remove-orphans job is {status}"):
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    assert job_of(orders, old.id).status is status


def test_what_was_handed_back_keeps_its_place(orders: Lake) -> None:
    waits(orders, attempt=1)
    assert orders.services.planner_loop.run_once().planned == 0


def test_an_overtaken_kind_is_planned_again_with_the_deadline_it_had(orders: Lake) -> None:
    old = waits(orders, JobKind.MERGE, until=timedelta(minutes=2))
    requested_job = orders.services.planner.run_now(LAKE, ORDERS, JobKind.REWRITE, {})
    orders.services.jobs.cancel(requested_job.id)
    assert orders.services.planner_loop.run_once().planned == 1
    again = active(orders)
    assert again is not None
    assert (again.kind, again.deadline) == (JobKind.MERGE, old.deadline)


def test_what_somebody_asks_for_takes_the_place_of_what_was_planned(orders: Lake) -> None:
    old = waits(orders, JobKind.MERGE, until=timedelta(seconds=-5))
    requested_job = orders.services.planner.run_now(LAKE, ORDERS, JobKind.REWRITE, {})
    assert active(orders) == requested_job
    assert "a user requested it" in (job_of(orders, old.id).error or "")
    with pytest.raises(Conflict, match="a rewrite job is pending"):
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    assert orders.services.planner_loop.run_once().planned == 0


def test_a_retry_takes_the_place_of_what_was_planned(orders: Lake) -> None:
    lease = orders.lease(JobKind.REWRITE, committing=False)
    orders.services.jobs.cancel(lease.job_id)
    waits(orders)
    retried = orders.services.jobs.retry(lease.job_id)
    assert active(orders) == retried


def test_decisions_look_back_on_what_was_done_and_not_on_what_gave_way(orders: Lake) -> None:
    """A schedule's moment is done by a job that ran; and many that gave way would leave no room for those."""
    done = waits(orders)
    with orders.services.database.writing() as uow:
        uow.jobs.put(a_job(JobStatus.SUCCEEDED, id=done.id, kind=done.kind, subject_id=done.relation_id))
    for _ in range(10):
        waits(orders)
        orders.services.jobs.cancel(orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {}).id)
    with orders.services.database.reading() as uow:
        assert [job.id for job in load_past_jobs(uow, done.relation_id) if job.kind is done.kind] == [done.id]


def test_a_corrected_group_takes_its_waiting_jobs_along(orders: Lake) -> None:
    policy(orders, group="nigth")
    orders.services.planner_loop.run_once()
    policy(orders, group="night")
    orders.services.planner_loop.run_once()
    leased_job = orders.services.jobs.take(optimizer(orders, "night"), orders.kinds)
    assert leased_job is not None
    assert leased_job.job.group == "night"


def test_a_job_that_was_asked_for_and_one_handed_back_change_their_group_too(orders: Lake) -> None:
    policy(orders, group="nigth")
    requested_job = orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    first = optimizer(orders, "nigth")
    assert orders.services.jobs.take(first, orders.kinds) is not None
    orders.services.optimizers.unregister(first)
    policy(orders, group="night")
    orders.services.planner_loop.run_once()
    moved = active(orders)
    assert moved is not None
    assert (moved.id, moved.group, moved.attempt) == (requested_job.id, "night", 1)


def test_an_optimizer_of_the_former_group_is_not_given_it_before_the_planner_has_looked(orders: Lake) -> None:
    orders.services.planner_loop.run_once()
    policy(orders, group="night")
    assert orders.services.jobs.take(optimizer(orders, "default"), orders.kinds) is None
    assert orders.services.jobs.take(optimizer(orders, "night"), orders.kinds) is not None


@pytest.mark.parametrize("by", ["planner", "optimizer"])
def test_what_waits_is_given_up_when_optimizing_is_switched_off(orders: Lake, by: str) -> None:
    orders.services.planner_loop.run_once()
    policy(orders, enabled="false")
    if by == "planner":
        orders.services.planner_loop.run_once()
    else:
        assert orders.services.jobs.take(optimizer(orders, "default"), orders.kinds) is None
    with orders.services.database.reading() as uow:
        (given_up,) = uow.jobs.list(limit=9).items
    assert given_up.status is JobStatus.CANCELED
    assert "switched off by policy" in (given_up.error or "")
    policy(orders, enabled="true")
    assert orders.services.planner_loop.run_once().planned == 1


def test_what_somebody_has_asked_for_runs_on_a_table_that_is_switched_off(orders: Lake) -> None:
    policy(orders, enabled="false")
    orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    orders.services.planner_loop.run_once()
    assert orders.services.jobs.take(optimizer(orders, "default"), orders.kinds) is not None


def test_a_retry_goes_by_the_policy_of_now(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE, committing=False)
    orders.services.jobs.cancel(lease.job_id)
    policy(orders, group="night", priority="high")
    retried = orders.services.jobs.retry(lease.job_id)
    assert (retried.group, retried.priority) == ("night", "high")


def test_blocking_a_table_waits_for_its_job_with_nothing_locked(orders: Lake) -> None:
    """Who ends a job locks it and then the table's statistics: in the other order each would wait for the other."""
    job = waits(orders)
    with ThreadPoolExecutor(1) as pool:
        with orders.services.database.writing() as uow:
            uow.jobs.lock(job.id)
            until = datetime.now(UTC) + HOUR
            blocked = pool.submit(orders.services.blockers.block, LAKE, ORDERS, reason="a load", until=until)
            wait([blocked], timeout=0.5)
            uow.stats.request_plans([job.relation_id], uow.now())
        assert blocked.result().reason == "a load"
    assert job_of(orders, job.id).status is JobStatus.CANCELED
