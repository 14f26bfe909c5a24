"""The job state machine: each rule of docs/protocols.md#jobs-and-leases, named after what happens without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from catalog.errors import Conflict, IllegalTransition, Invalid, LeaseLost
from catalog.history.commit import Outcome, may_delete_outputs
from catalog.jobs.job import (
    MAX_ATTEMPTS,
    Attempt,
    JobKind,
    JobStatus,
    LeaseToken,
    OptimizerId,
    cancel_job,
    change_status,
    end_job,
)
from catalog.jobs.leases import Lease, check_lease, end_silent_lease, hand_back, lease_job, mark_unknown, settle_unknown
from tests.factories import LATER, NOW, a_job, lease_of

ALLOWED = {
    "pending": {"running", "failed", "canceled"},
    "running": {"pending", "committing", "succeeded", "failed", "canceled"},
    "committing": {"pending", "succeeded", "failed", "unknown", "canceled"},
    "unknown": {"pending", "succeeded", "failed", "canceled"},
    "succeeded": set(),
    "failed": set(),
    "canceled": set(),
}
"""The statuses that a job may move to, from each status, written out a second time."""
FINAL = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED}
LEASED = {JobStatus.RUNNING, JobStatus.COMMITTING}
TOKEN = LeaseToken("t1")


@pytest.mark.parametrize("status", JobStatus)
def test_a_failed_or_canceled_job_can_be_retried_unless_it_is_a_sync(status: JobStatus) -> None:
    assert a_job(status).can_retry is (status in (JobStatus.FAILED, JobStatus.CANCELED))
    assert not a_job(status, kind=JobKind.SYNC).can_retry


def test_an_attempt_begins_without_what_the_last_one_said() -> None:
    """A job whose second attempt succeeded in silence was shown with the error of its first."""
    job = a_job(error="the first attempt's", result={"rows": 1}, progress={"step": 3})
    leased = lease_job(job, owner=OptimizerId("o"), token=TOKEN, now=NOW, until=LATER)
    assert (leased.error, leased.result, leased.progress) == (None, {}, {})


@pytest.mark.parametrize(("now", "to"), list(product(JobStatus, JobStatus)))
def test_a_job_moves_only_as_the_table_allows(now: JobStatus, to: JobStatus) -> None:
    job = a_job(now)
    if to.value in ALLOWED[now.value]:
        assert change_status(job, to).status is to
    else:
        with pytest.raises(IllegalTransition, match=f"is {now}, it cannot become {to}"):
            change_status(job, to)


def test_final_statuses_are_those_without_a_way_out() -> None:
    assert {status for status in JobStatus if not status.is_active} == FINAL
    assert {status for status in JobStatus if status.is_leased} == LEASED


def test_a_job_that_may_have_committed_is_active_so_that_nothing_is_planned_beside_it() -> None:
    assert JobStatus.UNKNOWN.is_active


@pytest.mark.parametrize(
    ("now", "to"),
    [
        (JobStatus.RUNNING, JobStatus.PENDING),
        (JobStatus.RUNNING, JobStatus.SUCCEEDED),
        (JobStatus.RUNNING, JobStatus.FAILED),
        (JobStatus.RUNNING, JobStatus.CANCELED),
        (JobStatus.COMMITTING, JobStatus.PENDING),
        (JobStatus.COMMITTING, JobStatus.SUCCEEDED),
        (JobStatus.COMMITTING, JobStatus.FAILED),
        (JobStatus.COMMITTING, JobStatus.UNKNOWN),
        (JobStatus.COMMITTING, JobStatus.CANCELED),
    ],
)
def test_between_two_leases_no_token_is_current(now: JobStatus, to: JobStatus) -> None:
    """A token that outlives its lease lets a reaped optimizer commit beside the next one: applied twice."""
    after = change_status(job := a_job(now), to)
    assert (after.token, after.lease_until) == (None, None)
    with pytest.raises(LeaseLost):
        check_lease(after, lease_of(job))


def test_each_attempt_has_a_lease_of_its_own() -> None:
    first = lease_job(a_job(), owner=OptimizerId("a"), token=TOKEN, now=NOW, until=LATER)
    again = change_status(first, JobStatus.PENDING)
    second = lease_job(again, owner=OptimizerId("b"), token=LeaseToken("t2"), now=NOW, until=LATER)
    assert (second.attempt, second.owner, second.leased_at, second.lease_until) == (2, "b", NOW, LATER)
    assert check_lease(second, lease_of(second)) is second
    with pytest.raises(LeaseLost, match="attempt 1"):
        check_lease(second, lease_of(first))


def test_a_guessed_attempt_with_the_right_token_is_no_lease() -> None:
    job = a_job(JobStatus.RUNNING)
    with pytest.raises(LeaseLost):
        check_lease(job, Lease(job.id, job.attempt + 1, TOKEN))


def test_silence_while_running_gives_the_job_back() -> None:
    assert end_silent_lease(a_job(JobStatus.RUNNING), LATER).status is JobStatus.PENDING


def test_silence_while_committing_is_unknown() -> None:
    """Taken for failed, its commit would be done again by the next attempt: applied twice."""
    assert end_silent_lease(a_job(JobStatus.COMMITTING), LATER).status is JobStatus.UNKNOWN


@pytest.mark.parametrize("status", sorted(LEASED))
def test_a_lease_lasts_to_its_last_moment(status: JobStatus) -> None:
    job = a_job(status)
    assert end_silent_lease(job, LATER - timedelta(microseconds=1)) is job


@pytest.mark.parametrize("status", sorted(set(JobStatus) - LEASED))
def test_only_leased_jobs_can_fall_silent(status: JobStatus) -> None:
    job = a_job(status, lease_until=NOW)
    assert end_silent_lease(job, LATER) is job


def test_settling_reads_the_record_and_not_the_history() -> None:
    """History may be expired or rolled back: the job would be done again."""
    unknown = change_status(a_job(JobStatus.COMMITTING, committed_by=TOKEN), JobStatus.UNKNOWN)
    assert settle_unknown(unknown, NOW, max_attempts=1).status is JobStatus.SUCCEEDED


def test_settling_without_a_record_tries_again_until_the_last_attempt() -> None:
    unknown = change_status(a_job(JobStatus.COMMITTING), JobStatus.UNKNOWN)
    assert settle_unknown(unknown, NOW, max_attempts=2).status is JobStatus.PENDING
    failed = settle_unknown(unknown, NOW, max_attempts=1)
    assert (failed.status, failed.ended_at) == (JobStatus.FAILED, NOW)
    assert failed.error


def test_settling_keeps_the_error_that_an_attempt_has_left() -> None:
    job = replace(change_status(a_job(JobStatus.RUNNING), JobStatus.PENDING), error="out of memory")
    assert settle_unknown(job, NOW, max_attempts=1).error == "out of memory"


@pytest.mark.parametrize("status", [status for status in JobStatus if status.is_active])
def test_a_job_whose_commit_is_in_the_table_is_not_canceled(status: JobStatus) -> None:
    """CANCELED, but its commit is in the table."""
    assert cancel_job(a_job(status), NOW).status is JobStatus.CANCELED
    recorded = a_job(status, committed_by=TOKEN)
    assert not recorded.can_cancel
    with pytest.raises(Conflict, match="cannot be canceled"):
        cancel_job(recorded, NOW)


@pytest.mark.parametrize("status", sorted(FINAL))
def test_what_has_ended_stays(status: JobStatus) -> None:
    job = a_job(status)
    assert not job.can_cancel
    with pytest.raises(IllegalTransition):
        cancel_job(job, NOW)
    with pytest.raises(IllegalTransition):
        end_job(job, JobStatus.FAILED, NOW)


def test_only_a_known_refusal_lets_outputs_be_deleted() -> None:
    assert [outcome for outcome in Outcome if may_delete_outputs(outcome)] == [Outcome.REFUSED]


def test_a_lease_is_read_as_it_is_written() -> None:
    lease = lease_of(a_job(JobStatus.RUNNING, token=LeaseToken("with.dots-and_more")))
    assert Lease.parse(str(lease)) == lease


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "f0e9c6a2-5b8e-4a55-8d7f-3f6f5b1c2d3e.x.t"])
def test_a_lease_of_another_shape_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match=r"JOB\.ATTEMPT\.TOKEN"):
        Lease.parse(text)


def test_a_job_tells_of_each_attempt_which_optimizer_had_it_and_how_that_ended() -> None:
    job = a_job()
    for number, end in enumerate((hand_back, end_silent_lease, mark_unknown), 1):
        job = lease_job(job, owner=OptimizerId(f"o{number}"), token=TOKEN, now=NOW, until=NOW)
        job = end(change_status(job, JobStatus.COMMITTING) if end is mark_unknown else job, LATER)
    job = settle_unknown(job, LATER, max_attempts=3)
    assert job.status is JobStatus.FAILED
    assert [(attempt.number, attempt.optimizer, attempt.outcome) for attempt in job.attempts] == [
        (1, "o1", "handed back"),
        (2, "o2", "fell silent while running"),
        (3, "o3", "did not learn whether it had committed"),
    ]
    assert {(attempt.leased_at, attempt.ended_at) for attempt in job.attempts} == {(NOW, LATER)}
    assert tuple(Attempt.from_json(attempt.as_json()) for attempt in job.attempts) == job.attempts


def test_an_attempt_that_goes_on_has_no_end_and_the_last_one_is_how_the_job_ended() -> None:
    job = lease_job(a_job(), owner=OptimizerId("o"), token=TOKEN, now=NOW, until=LATER)
    (going_on,) = job.attempts
    assert (going_on.ended_at, going_on.outcome, Attempt.from_json(going_on.as_json())) == (None, None, going_on)
    (over,) = end_job(job, JobStatus.SUCCEEDED, LATER).attempts
    assert (over.ended_at, over.outcome) == (LATER, "succeeded")


def test_of_many_attempts_the_last_are_told() -> None:
    job = a_job()
    for _ in range(MAX_ATTEMPTS + 2):
        job = hand_back(lease_job(job, owner=OptimizerId("o"), token=TOKEN, now=NOW, until=LATER), LATER)
    assert [attempt.number for attempt in job.attempts] == list(range(3, MAX_ATTEMPTS + 3))
