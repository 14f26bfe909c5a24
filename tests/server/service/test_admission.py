"""Which jobs may begin: asked when they are planned, when somebody asks for them, and when they are leased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catalog.errors import Conflict, NotFound
from catalog.jobs.blocker import Blocker
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import TableName
from catalog.planning import Due, NotDue
from server.background.cleanup import Cleanup
from server.service.jobs import leases
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake

HOUR = timedelta(hours=1)
DUE = {"firn.merge.max-pending-commits": "1"}
CLOSED = {"firn.optimize.not-during": "* * * * * for 1 d"}


@pytest.fixture
def orders(lake: Lake) -> Lake:
    """With a table whose one pending commit makes a merge due."""
    lake.create_keyed(ORDERS, **DUE)
    lake.append(CHANGE)
    return lake


def block(lake: Lake, *kinds: JobKind) -> Blocker:
    return lake.services.blockers.block(LAKE, ORDERS, reason="a load", until=datetime.now(UTC) + HOUR, kinds=kinds)


def decision(lake: Lake) -> Due | NotDue:
    return lake.services.planner.outlook(LAKE, ORDERS).decision


def last(lake: Lake) -> Job:
    with lake.services.database.reading() as uow:
        return uow.jobs.list(limit=1).items[0]


def test_a_blocked_table_gets_no_job_by_plan_or_by_request(orders: Lake) -> None:
    blocker = block(orders)
    assert orders.services.planner_loop.run_once().planned == 0
    admission = decision(orders)
    assert isinstance(admission, NotDue)
    assert admission.blocked_by == blocker
    with pytest.raises(Conflict, match=r"the table is blocked until .* UTC: a load"):
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})


def test_a_blocker_of_one_kind_leaves_the_others_alone(orders: Lake) -> None:
    block(orders, JobKind.REWRITE)
    assert orders.services.planner_loop.run_once().planned == 1
    with pytest.raises(Conflict):
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.REWRITE, {})


def test_blocking_gives_up_what_waits_and_it_is_planned_again_afterwards(orders: Lake) -> None:
    orders.services.planner_loop.run_once()
    block(orders)
    given_up = last(orders)
    assert given_up.status is JobStatus.CANCELED
    assert "blocked until" in (given_up.error or "")
    orders.services.blockers.unblock(LAKE, ORDERS)
    assert orders.services.planner_loop.run_once().planned == 1


def test_a_running_job_goes_on_when_its_table_is_blocked(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    block(orders)
    orders.services.jobs.beat(lease, {}, [])
    assert orders.job(lease).status is JobStatus.COMMITTING


def test_a_job_planned_while_its_table_was_being_blocked_is_not_leased(orders: Lake) -> None:
    """Neither transaction saw the other's row."""
    blocker = block(orders)
    orders.services.blockers.unblock(LAKE, ORDERS)
    orders.services.planner_loop.run_once()
    with orders.services.database.writing() as uow:
        uow.blockers.add(blocker)
    assert orders.services.jobs.take(orders.optimizer(), orders.kinds) is None
    assert last(orders).status is JobStatus.CANCELED


def test_what_was_planned_in_the_window_does_not_begin_after_it(orders: Lake) -> None:
    orders.services.planner_loop.run_once()
    orders.services.change_properties(LAKE, ORDERS, updates=CLOSED, removals=())
    assert orders.services.jobs.take(orders.optimizer(), orders.kinds) is None
    assert "closed before an optimizer was free" in (last(orders).error or "")
    assert orders.services.planner_loop.run_once().planned == 0


def test_what_somebody_asks_for_runs_outside_the_window_and_again_when_retried(orders: Lake) -> None:
    orders.services.change_properties(LAKE, ORDERS, updates=CLOSED, removals=())
    lease = orders.lease(JobKind.MERGE, committing=False)
    orders.services.jobs.cancel(lease.job_id)
    orders.services.jobs.retry(lease.job_id)
    assert orders.services.jobs.take(orders.optimizer(), orders.kinds) is not None


def test_a_planned_job_that_is_retried_counts_as_asked_for(orders: Lake) -> None:
    orders.services.planner_loop.run_once()
    orders.services.jobs.cancel(last(orders).id)
    orders.services.change_properties(LAKE, ORDERS, updates=CLOSED, removals=())
    orders.services.jobs.retry(last(orders).id)
    assert orders.services.jobs.take(orders.optimizer(), orders.kinds) is not None


def test_a_job_that_was_handed_back_goes_on_whatever_the_window(orders: Lake) -> None:
    orders.services.planner_loop.run_once()
    optimizer = orders.optimizer()
    assert orders.services.jobs.take(optimizer, orders.kinds) is not None
    orders.services.optimizers.unregister(optimizer)
    orders.services.change_properties(LAKE, ORDERS, updates=CLOSED, removals=())
    leased_job = orders.services.jobs.take(orders.optimizer(), orders.kinds)
    assert leased_job is not None
    assert leased_job.job.attempt == 2


def test_one_blocker_is_lifted_by_its_id(orders: Lake) -> None:
    first, second = block(orders), block(orders)
    orders.services.blockers.unblock(LAKE, ORDERS, first.id)
    assert list(orders.services.blockers.list(LAKE, CHANGE)) == [second]
    with pytest.raises(NotFound, match="has no blocker"):
        orders.services.blockers.unblock(LAKE, ORDERS, first.id)


def test_a_blocker_that_has_ended_counts_no_more_and_is_tidied(orders: Lake) -> None:
    blocker = block(orders)
    ended = Blocker(
        **{name: getattr(blocker, name) for name in Blocker.__slots__} | {"until": blocker.created_at - HOUR}
    )
    orders.services.blockers.unblock(LAKE, ORDERS)
    with orders.services.database.writing() as uow:
        uow.blockers.add(ended)
    assert isinstance(decision(orders), Due)
    assert Cleanup(orders.services.database).activate().blockers == 1


def test_a_job_keeps_what_was_predicted_of_it(orders: Lake) -> None:
    admission = decision(orders)
    assert isinstance(admission, Due)
    assert admission.predicted is not None
    orders.services.planner_loop.run_once()
    assert last(orders).predicted == admission.predicted.as_json()
    assert last(orders).predicted["files_before"] == 1


def test_jobs_of_a_closed_window_are_given_up_some_at_a_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait: no transaction and no request is about all of them."""
    monkeypatch.setattr(leases, "JOBS_PER_TRANSACTION", 2)
    monkeypatch.setattr(leases, "ROUNDS", 2)
    for number in range(7):
        lake.create_keyed(TableName(("db",), f"t{number}"), **DUE)
        lake.append(TableName(("db", f"t{number}"), "change"))
    assert lake.services.planner_loop.run_once().planned == 7
    lake.services.policies.change(LAKE, (), updates=CLOSED, removals=())
    optimizer, waiting = lake.optimizer(), []
    for _ in range(3):
        assert lake.services.jobs.take(optimizer, lake.kinds) is None
        with lake.services.database.reading() as uow:
            waiting.append(len(uow.jobs.with_status([JobStatus.PENDING])))
    assert waiting == [3, 0, 0]
    assert last(lake).status is JobStatus.CANCELED
