"""Jobs and leases as optimizers and people act on them, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catalog.errors import Conflict, Invalid, LeaseLost, NotFound, Unavailable
from catalog.history.commit import Outcome
from catalog.jobs.job import Job, JobKind, JobStatus
from server.service.jobs.leases import Jobs, LeaseTimes
from server.service.jobs.tasks import Tasks
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake, merged


@pytest.fixture
def orders(lake: Lake) -> Lake:
    lake.create_keyed()
    lake.append(CHANGE)
    return lake


def reaper(lake: Lake, **times: object) -> Jobs:
    """The same jobs, seen by a server for which every lease has lapsed."""
    lapsed = LeaseTimes(lasts=timedelta(seconds=-1), **times)  # type: ignore[arg-type]
    return Jobs(lake.services.database, lapsed)


def test_a_job_that_has_committed_has_succeeded_whatever_its_optimizer_reports(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    orders.commit(merged(orders), lease=lease)
    job = orders.services.jobs.report(lease, Outcome.REFUSED, error="the answer was lost", result={})
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, None)


def test_a_reported_commit_that_nobody_has_seen_is_a_failure(orders: Lake) -> None:
    job = orders.services.jobs.report(orders.lease(JobKind.MERGE), Outcome.COMMITTED, error=None, result={})
    assert job.status is JobStatus.FAILED
    assert "has not seen" in (job.error or "")


def test_a_report_of_an_ended_lease_changes_nothing(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    orders.services.jobs.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        orders.services.jobs.report(lease, None, error=None, result={})
    assert orders.job(lease).status is JobStatus.CANCELED


def test_a_silent_optimizers_job_is_given_to_the_next_one(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE, committing=False)
    reaper(orders).beat(lease, {}, [])
    assert orders.services.jobs.reap().requeued == 1
    leased_job = orders.services.jobs.take(orders.optimizer(), orders.kinds)
    assert leased_job is not None
    assert (leased_job.job.id, leased_job.job.attempt) == (lease.job_id, 2)
    with pytest.raises(LeaseLost):
        orders.services.jobs.beat(lease, {}, [])


def test_silence_after_the_commit_is_settled_by_the_record(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    orders.commit(merged(orders), lease=lease)
    reaper(orders).beat(lease, {}, [])
    assert orders.services.jobs.reap().succeeded == 1
    assert orders.job(lease).status is JobStatus.SUCCEEDED


def test_silence_before_the_commit_is_tried_again_until_the_last_attempt(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    reaper(orders).beat(lease, {}, [])
    assert reaper(orders, max_attempts=1).reap().failed == 1
    job = orders.job(lease)
    assert (job.status, job.token) == (JobStatus.FAILED, None)


def test_reaping_leaves_living_jobs_alone(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    reaped = orders.services.jobs.reap()
    assert (reaped.requeued, reaped.unknown, reaped.succeeded, reaped.failed) == (0, 0, 0, 0)
    assert orders.job(lease).status is JobStatus.COMMITTING


def test_a_leaving_optimizer_gives_back_what_it_has_not_begun_to_commit(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE, committing=False)
    owner = orders.job(lease).owner
    assert owner is not None
    orders.services.optimizers.unregister(owner)
    assert orders.job(lease).status is JobStatus.PENDING


def test_a_leaving_optimizer_keeps_a_job_that_may_commit(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    owner = orders.job(lease).owner
    assert owner is not None
    orders.services.optimizers.unregister(owner)
    assert orders.job(lease).status is JobStatus.COMMITTING


def test_an_optimizer_that_is_not_known_registers_again(orders: Lake) -> None:
    with pytest.raises(NotFound, match="not registered"):
        orders.services.jobs.take("nobody", orders.kinds)


def test_a_failed_job_is_retried_as_a_new_one(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    with pytest.raises(Conflict, match="only failed and canceled"):
        orders.services.jobs.retry(lease.job_id)
    orders.services.jobs.report(lease, Outcome.REFUSED, error="x", result={})
    retried = orders.services.jobs.retry(lease.job_id)
    assert (retried.id != lease.job_id, retried.status, retried.kind) == (True, JobStatus.PENDING, JobKind.MERGE)
    with pytest.raises(Conflict, match="a merge job is pending"):
        orders.services.jobs.retry(lease.job_id)


def test_a_sync_is_not_asked_for_as_a_job(orders: Lake) -> None:
    """Without the look that stages what Hive has, its optimizer would find nothing to do and its commit no books."""
    with pytest.raises(Invalid, match="scan of Hive") as refused:
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.SYNC, {})
    assert "firn hive sync" in (refused.value.hint or "")
    with orders.services.database.reading() as uow:
        assert uow.jobs.list(limit=10).items == []


def test_a_table_with_a_job_is_not_planned_for(orders: Lake) -> None:
    orders.lease(JobKind.MERGE)
    with pytest.raises(Conflict, match="merge job is committing"):
        orders.services.planner.run_now(LAKE, ORDERS, JobKind.CLEAN, {})


def test_a_jobs_attempts_are_kept_with_it(orders: Lake) -> None:
    orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    first = orders.optimizer()
    assert orders.services.jobs.take(first, orders.kinds) is not None
    orders.services.optimizers.unregister(first)
    leased_job = orders.services.jobs.take(orders.optimizer(), orders.kinds)
    assert leased_job is not None
    orders.services.jobs.report(leased_job.lease, None, error=None, result={})
    shown = orders.client.request("GET", f"/api/v1/jobs/{leased_job.job.id}").json()["attempts"]
    assert [(attempt["number"], attempt["optimizer"], attempt["outcome"]) for attempt in shown] == [
        (1, first, "handed back"),
        (2, leased_job.job.owner, "succeeded"),
    ]


def asked_for_a_task(orders: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> tuple[int, Job]:
    """What an optimizer is answered when the task of its job cannot be made, and what becomes of the job."""

    def fails(_self: Tasks, _job: Job) -> None:
        assert error is not None
        raise error

    with monkeypatch.context() as patched:
        if error is not None:
            patched.setattr(Tasks, "build_for_lease", fails)
        lease_request = {"optimizer_id": orders.optimizer(), "kinds": list(JobKind), "wait_seconds": 0}
        answer = orders.client.post("/api/v1/leases", json=lease_request)
    with orders.services.database.reading() as uow:
        return answer.status_code, uow.jobs.list(limit=1).items[0]


def test_a_job_whose_task_cannot_be_made_just_now_is_tried_again(orders: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    status, job = asked_for_a_task(orders, monkeypatch, Unavailable("the storage does not answer"))
    assert (status, job.status, job.error) == (204, JobStatus.RUNNING, "the storage does not answer")
    assert orders.services.jobs.reap().requeued == 0  # not before a pause
    assert reaper(orders).reap().requeued == 1
    status, job = asked_for_a_task(orders, monkeypatch, None)
    assert (status, job.status, job.attempt, job.error) == (200, JobStatus.RUNNING, 2, None)
    with orders.services.database.reading() as uow:
        ((_, line),) = uow.jobs.log(job.id)
    assert line == "attempt 1: the storage does not answer; now pending"


def test_a_job_whose_task_can_never_be_made_fails_with_the_cause(orders: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    for attempt in range(1, 3):
        _, job = asked_for_a_task(orders, monkeypatch, Unavailable("the storage does not answer"))
        assert job.attempt == attempt
        reaper(orders, max_attempts=2).reap()
    with orders.services.database.reading() as uow:
        job = uow.jobs.get(job.id)
    assert (job.status, job.error) == (JobStatus.FAILED, "the storage does not answer")


def test_a_fault_of_the_server_ends_the_job_and_is_told(orders: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    status, job = asked_for_a_task(orders, monkeypatch, KeyError("snapshot-id"))
    assert (status, job.status) == (204, JobStatus.FAILED)
    assert job.error == "building the task failed: KeyError: 'snapshot-id'"
