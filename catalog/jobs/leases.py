"""Leases of jobs: granting, checking, returning and expiry. The rules are those of docs/protocols.md#jobs-and-leases.

Job, attempt and token name a lease. Between two leases no token is current.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self
from uuid import UUID

from catalog.errors import Invalid, LeaseLost
from catalog.jobs.job import (
    MAX_ATTEMPTS,
    Attempt,
    Job,
    JobId,
    JobStatus,
    LeaseToken,
    OptimizerId,
    change_status,
    end_attempt,
    end_job,
)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one job. The X-Firn-Lease header holds it as `job.attempt.token`."""

    job_id: JobId
    attempt: int
    token: LeaseToken

    @classmethod
    def parse(cls, header: str) -> Self:
        """The lease of a header's text; Invalid for any other form."""
        job_id, _, rest = header.partition(".")
        attempt, _, token = rest.partition(".")
        try:
            return cls(JobId(UUID(job_id)), int(attempt), LeaseToken(token))
        except ValueError as error:
            raise Invalid(f"invalid lease {header!r}: it should read JOB.ATTEMPT.TOKEN") from error

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.token}"


def lease_job(job: Job, *, owner: OptimizerId, token: LeaseToken, now: datetime, until: datetime) -> Job:
    """The job as its next attempt, owned by an optimizer. Progress, error and result of the previous attempt are
    cleared.
    """
    leased = replace(change_status(job, JobStatus.RUNNING), attempt=job.attempt + 1, token=token, owner=owner)
    attempt = Attempt(number=leased.attempt, optimizer=owner, leased_at=now)
    attempts = (*job.attempts, attempt)[-MAX_ATTEMPTS:]
    return replace(leased, leased_at=now, lease_until=until, progress={}, error=None, result={}, attempts=attempts)


def hand_back(job: Job, now: datetime) -> Job:
    """The job as returned by an optimizer that stops."""
    return change_status(end_attempt(job, "handed back", now), JobStatus.PENDING)


def mark_unknown(job: Job, now: datetime) -> Job:
    """The job of an optimizer that got no response to its commit."""
    return change_status(end_attempt(job, "did not learn whether it had committed", now), JobStatus.UNKNOWN)


def check_lease(job: Job, lease: Lease) -> Job:
    """The job itself if the lease is its current one; LeaseLost otherwise (docs/protocols.md, rules 2.1 and 2.2)."""
    if job.token is None or job.token != lease.token or job.attempt != lease.attempt or not job.status.is_leased:
        raise LeaseLost(
            f"the lease of attempt {lease.attempt} on job {job.id} has ended: "
            f"the job is {job.status}, attempt {job.attempt}",
            hint="stop working on this job; delete its outputs only if no commit was sent",
        )
    return job


def end_silent_lease(job: Job, now: datetime) -> Job:
    """The job after its owner missed its heartbeats (docs/protocols.md, rule 2.5); unchanged while the lease lasts."""
    if not job.status.is_leased or job.lease_until is None or now < job.lease_until:
        return job
    to = JobStatus.UNKNOWN if job.status is JobStatus.COMMITTING else JobStatus.PENDING
    return change_status(end_attempt(job, f"fell silent while {job.status}", now), to)


def settle_unknown(job: Job, now: datetime, *, max_attempts: int) -> Job:
    """The job after its lease has ended: its own record decides (docs/protocols.md, rules 2.5 and 2.6)."""
    if job.committed_by is not None:
        return end_job(job, JobStatus.SUCCEEDED, now)
    if job.attempt >= max_attempts:
        return end_job(replace(job, error=job.error or "every attempt ended without a commit"), JobStatus.FAILED, now)
    return job if job.status is JobStatus.PENDING else change_status(job, JobStatus.PENDING)
