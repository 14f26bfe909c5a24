"""Jobs and leases: taken, kept alive, reported, canceled, reaped and settled (docs/protocols.md#jobs-and-leases)."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import CatalogError, Conflict, Invalid, NotFound
from catalog.history.commit import Outcome
from catalog.jobs.job import Job, JobId, JobKind, JobStatus, LeaseToken, cancel_job, change_status, end_job
from catalog.jobs.leases import Lease, check_lease, end_silent_lease, lease_job, mark_unknown, settle_unknown
from catalog.jobs.optimizer import Optimizer
from catalog.jobs.optimizer_group import GroupName
from catalog.maintenance import kind_of
from catalog.names import RelationId
from catalog.ports.store import Database, UnitOfWork
from server.service.jobs.admission import admit
from server.service.jobs.job_queue import find_next_job
from server.service.planning.planner import create_requested_job, load_facts

JOBS_PER_TRANSACTION = 50
"""Jobs that one transaction gives up or moves: nobody else writes while it lasts."""
ROUNDS = 10
"""Such transactions that one request for a job may take."""
PAUSES = 5
"""So often a pause is doubled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long leases last and how often a job is tried."""

    lasts: timedelta = timedelta(seconds=60)
    beat: timedelta = timedelta(seconds=10)
    max_attempts: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A job that an optimizer has just been given."""

    job: Job
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapedJobs:
    """What became of jobs whose optimizers fell silent."""

    requeued: int = 0
    unknown: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Jobs:
    """Background jobs, as optimizers and people act on them."""

    database: Database
    times: LeaseTimes = field(default_factory=LeaseTimes)

    def has_work(self, group: str, kinds: Collection[JobKind]) -> bool:
        """Whether asking for a lease may bring one: cheap, for waiting."""
        with self.database.reading() as uow:
            return find_next_job(uow, GroupName(group), kinds, self.times.lasts, taking=False) is not None

    def take(self, optimizer_id: str, kinds: Collection[JobKind]) -> Leased | None:
        """The job of the optimizer's group that is next, under a new lease; None when there is none.

        Where a window has closed over very many jobs it gives some of them up, and None: the rest when asked again.
        """
        for _ in range(ROUNDS):
            given, looks_again = self._take(optimizer_id, kinds)
            if not looks_again:
                return given
        return None

    def _take(self, optimizer_id: str, kinds: Collection[JobKind]) -> tuple[Leased | None, bool]:
        """What is given in one transaction, and whether there is more to look through."""
        with self.database.writing() as uow:
            optimizer = _optimizer(uow, optimizer_id)
            if optimizer.draining:
                return None, False
            job, looks_again = self._next_permitted(uow, GroupName(optimizer.group), kinds)
            if job is None:
                return None, looks_again
            now = uow.now()
            token = LeaseToken(secrets.token_urlsafe(18).replace(".", "_"))
            job = lease_job(job, owner=optimizer.id, token=token, now=now, until=now + self.times.lasts)
            uow.jobs.put(job)
            uow.optimizers.saw(optimizer.id, now, {})
        return Leased(job=job, lease=Lease(job.id, job.attempt, token)), False

    def _next_permitted(self, uow: UnitOfWork, group: GroupName, kinds: Collection[JobKind]) -> tuple[Job | None, bool]:
        """The next pending job that may begin now; others are moved to their group, or given up until they may.

        True with it says that as many were looked through as one transaction should, and there may be more. Tables are
        left to the planner at the end, all at once: rows are locked in one order for everybody.
        """
        given_up: list[RelationId] = []
        permitted, may_be_more = None, True
        for _ in range(JOBS_PER_TRANSACTION):
            job = find_next_job(uow, group, kinds, self.times.lasts, taking=True)
            fit = None if job is None else admit(uow, job)
            if fit is None or fit == job:
                permitted, may_be_more = job, False
                break
            uow.jobs.put(fit)
            given_up += [] if fit.status.is_active else [fit.relation_id]
        uow.stats.look_again(given_up, uow.now())
        return permitted, may_be_more

    def postpone(self, lease: Lease, reason: str) -> None:
        """Give back a job whose task cannot be made just now: this attempt ends after a pause, longer each time.

        Nobody works on it meanwhile. The reaper puts it back, as it does when an optimizer falls silent.
        """
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            pause = min(self.times.lasts, self.times.beat * 2 ** min(job.attempt, PAUSES))
            uow.jobs.put(replace(job, lease_until=now + pause, error=reason))

    def beat(
        self, lease: Lease, progress: Mapping[str, Any], log: Sequence[str], memory: Mapping[str, int] | None = None
    ) -> Job:
        """Keep a lease alive; LeaseLost when it has ended."""
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            job = replace(job, lease_until=now + self.times.lasts, progress=dict(progress) or job.progress)
            uow.jobs.put(job)
            if log:
                uow.jobs.add_log(job.id, log, now)
            self._heard(uow, job, memory or {})
        return job

    def begin_commit(self, lease: Lease) -> Job:
        """Note that the job is about to ask for its commit; LeaseLost when its lease has ended."""
        with self.database.writing() as uow:
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            if job.status is JobStatus.RUNNING:
                job = change_status(job, JobStatus.COMMITTING)
            job = replace(job, lease_until=uow.now() + self.times.lasts)
            uow.jobs.put(job)
        return job

    def report(
        self,
        lease: Lease,
        outcome: Outcome | None,
        *,
        error: str | None,
        result: Mapping[str, Any],
        log: Sequence[str] = (),
    ) -> Job:
        """The end of an attempt, as its optimizer saw it; `outcome` None means that there was nothing to commit.

        The job's own record has the last word (docs/protocols.md, rule 2.6). A report of an ended lease changes
        nothing: LeaseLost.
        """
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            if log:
                uow.jobs.add_log(job.id, log, now)
            job = self._reported(replace(job, error=error, result=dict(result)), outcome, uow)
            _put(uow, job)
            self._heard(uow, job, {})
        return job

    def _reported(self, job: Job, outcome: Outcome | None, uow: UnitOfWork) -> Job:
        now = uow.now()
        if job.committed_by is not None:
            return end_job(replace(job, error=None), JobStatus.SUCCEEDED, now)
        if outcome is None:
            return end_job(job, JobStatus.SUCCEEDED, now)
        if outcome is Outcome.UNKNOWN and job.status is JobStatus.COMMITTING:
            return mark_unknown(job, now)
        if outcome is Outcome.COMMITTED:
            return end_job(replace(job, error="reported a commit that the catalog has not seen"), JobStatus.FAILED, now)
        return end_job(job, JobStatus.FAILED, now)

    def refuse(self, lease: Lease, error: CatalogError) -> Job:
        """The end of a job for which there are no facts: its table is gone, or not one for such a job.

        What a schedule has asked for is done with that, with the reason: asked again every hour, it would fail again.
        """
        job = self._found(lease)
        if kind_of(job.kind).is_only_scheduled and not job.was_requested and isinstance(error, Conflict | Invalid):
            return self.report(lease, None, error=None, result={"refused": error.message}, log=[error.message])
        return self.report(lease, Outcome.REFUSED, error=error.message, result={})

    def _found(self, lease: Lease) -> Job:
        with self.database.reading() as uow:
            return uow.jobs.get(lease.job_id)

    def _heard(self, uow: UnitOfWork, job: Job, memory: Mapping[str, int]) -> None:
        if job.owner is not None:
            uow.optimizers.saw(job.owner, uow.now(), memory)

    def cancel(self, job_id: JobId) -> Job:
        """Give a job up; Conflict when its commit is in the table. Its optimizer learns of it at its next beat.

        One that is given up already stays so: the same request comes again after a lost answer.
        """
        with self.database.writing() as uow:
            job = uow.jobs.lock(job_id)
            if job.status is not JobStatus.CANCELED:
                job = cancel_job(job, uow.now())
                _put(uow, job)
        return job

    def retry(self, job_id: JobId) -> Job:
        """A new job like one that has failed or was canceled, by the policy of now; Conflict as for `run_now`."""
        with self.database.writing() as uow:
            old = uow.jobs.get(job_id)
            if old.status not in (JobStatus.FAILED, JobStatus.CANCELED):
                raise Conflict(f"job {job_id} is {old.status}: only failed and canceled jobs can be retried")
            if not old.can_retry:
                raise Conflict(
                    f"{old.table} may have changed in Hive since that sync looked",
                    hint="ask for a sync: it looks again",
                )
            relation = uow.relations.get(old.relation_id)
            params = {name: value for name, value in old.params.items() if name != "state"}
            return create_requested_job(
                uow, relation, load_facts(uow, relation), old.kind, params, f"retry of {old.id}"
            )

    def reap(self) -> ReapedJobs:
        """End the leases of silent optimizers, then settle what they left; safe to run at any time, by any server."""
        done = ReapedJobs()
        with self.database.reading() as uow:
            candidates = uow.jobs.with_status([JobStatus.RUNNING, JobStatus.COMMITTING, JobStatus.UNKNOWN])
        for candidate in candidates:
            with self.database.writing() as uow:
                done = self._reap_one(uow, candidate.id, done)
        return done

    def _reap_one(self, uow: UnitOfWork, job_id: JobId, done: ReapedJobs) -> ReapedJobs:
        before = uow.jobs.lock(job_id)
        now = uow.now()
        job = end_silent_lease(self._by_this_clock(before, now), now)
        if job.status is JobStatus.UNKNOWN or (job.status is JobStatus.PENDING and before.status.is_leased):
            job = settle_unknown(job, now, max_attempts=self.times.max_attempts)
        if job == before:
            return done
        _put(uow, job)
        if job.status is before.status and job.status.is_leased:
            return done
        reason = before.error or f"{before.owner} fell silent while {before.status}"  # of a leased job: see put_off
        uow.jobs.add_log(
            job.id,
            [f"attempt {before.attempt}: {reason}; now {job.status}"],
            now,
        )
        counted = {JobStatus.PENDING: "requeued", JobStatus.SUCCEEDED: "succeeded", JobStatus.FAILED: "failed"}
        name = counted.get(job.status, "unknown")
        return replace(done, **{name: getattr(done, name) + 1})

    def _by_this_clock(self, job: Job, now: datetime) -> Job:
        """The job with a lease that ends no later than one taken now: a clock set back would keep it for as long."""
        if job.lease_until is None:
            return job
        return replace(job, lease_until=min(job.lease_until, now + self.times.lasts))


def _put(uow: UnitOfWork, job: Job) -> None:
    """Save it. One that has ended leaves its table to the planner, in the same transaction: it may need another."""
    uow.jobs.put(job)
    if not job.status.is_active:
        uow.stats.look_again([job.relation_id], uow.now())


def _optimizer(uow: UnitOfWork, optimizer_id: str) -> Optimizer:
    optimizer = uow.optimizers.find(optimizer_id)
    if optimizer is None:
        raise NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
    return optimizer
