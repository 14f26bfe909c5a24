"""Jobs and leases: take, heartbeat, report, cancel, reap and settle (docs/protocols.md#jobs-and-leases)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
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
from server.service.jobs.job_queue import Search, find_next_job
from server.service.planning.planner import create_requested_job, load_facts

JOBS_PER_TRANSACTION = 50
"""Jobs that one transaction withdraws or moves; no other transaction writes meanwhile."""
ROUNDS = 10
"""Number of such transactions for one request."""
PAUSES = 5
"""The number of times that the pause of a postponed job doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The duration of leases, the interval of heartbeats, and the number of attempts of a job."""

    lasts: timedelta = timedelta(seconds=60)
    beat: timedelta = timedelta(seconds=10)
    max_attempts: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A job with the new lease of an optimizer."""

    job: Job
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapedJobs:
    """New states of jobs whose optimizers fell silent, as counts."""

    requeued: int = 0
    unknown: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectHooks:
    """What a kind of job does whose subject is no table in a catalog, in the transaction of the request."""

    canceled: Callable[[UnitOfWork, Job], None]
    retry: Callable[[UnitOfWork, Job], Job]


@dataclass(frozen=True)
class Jobs:
    """The operations of optimizers and users on jobs."""

    database: Database
    times: LeaseTimes = field(default_factory=LeaseTimes)
    hooks: Mapping[JobKind, SubjectHooks] = field(default_factory=dict)

    def has_work(self, group: str, kinds: Collection[JobKind], *, allow_code: bool = False) -> bool:
        """Whether a request for a lease may succeed; cheap, for long polling."""
        search = Search(group=GroupName(group), kinds=kinds, lease=self.times.lasts, allow_code=allow_code)
        with self.database.reading() as uow:
            return find_next_job(uow, search) is not None

    def take(self, optimizer_id: str, kinds: Collection[JobKind], *, allow_code: bool = False) -> Leased | None:
        """Lease the next job of the optimizer's group; None when there is none. Code only if the optimizer runs it.

        When a window has closed over very many jobs, one call withdraws some of them and returns None; later calls
        withdraw the rest.
        """
        for _ in range(ROUNDS):
            leased, may_be_more = self._take(optimizer_id, kinds, allow_code=allow_code)
            if not may_be_more:
                return leased
        return None

    def _take(self, optimizer_id: str, kinds: Collection[JobKind], *, allow_code: bool) -> tuple[Leased | None, bool]:
        """Lease a job in one transaction; the second value is whether more jobs may wait."""
        with self.database.writing() as uow:
            optimizer = _get_optimizer(uow, optimizer_id)
            if optimizer.draining:
                return None, False
            search = Search(
                group=GroupName(optimizer.group),
                kinds=kinds,
                lease=self.times.lasts,
                allow_code=allow_code,
                taking=True,
            )
            job, may_be_more = self._find_permitted(uow, search)
            if job is None:
                return None, may_be_more
            now = uow.now()
            token = LeaseToken(secrets.token_urlsafe(18).replace(".", "_"))
            job = lease_job(job, owner=optimizer.id, token=token, now=now, until=now + self.times.lasts)
            uow.jobs.put(job)
            uow.optimizers.record_heartbeat(optimizer.id, now, {})
        return Leased(job=job, lease=Lease(job.id, job.attempt, token)), False

    def _find_permitted(self, uow: UnitOfWork, search: Search) -> tuple[Job | None, bool]:
        """The next pending job that may begin now; jobs before it are moved to another group or withdrawn.

        The second value is whether more jobs may wait than one transaction checks. At the end it makes the tables of
        withdrawn jobs due, all at once, because all transactions lock rows in the same order.
        """
        withdrawn: list[RelationId] = []
        permitted, may_be_more = None, True
        for _ in range(JOBS_PER_TRANSACTION):
            job = find_next_job(uow, search)
            admitted = None if job is None else admit(uow, job)
            if admitted is None or admitted == job:
                permitted, may_be_more = job, False
                break
            uow.jobs.put(admitted)
            withdrawn += [] if admitted.status.is_active else [admitted.relation_id]
        uow.stats.request_plans(withdrawn, uow.now())
        return permitted, may_be_more

    def postpone(self, lease: Lease, reason: str) -> None:
        """Postpone a job whose task the server cannot build now: the attempt ends after a pause, longer each time.

        No optimizer works on the job meanwhile. The reaper requeues it as after the silence of an optimizer.
        """
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            pause = min(self.times.lasts, self.times.beat * 2 ** min(job.attempt, PAUSES))
            uow.jobs.put(replace(job, lease_until=now + pause, error=reason))

    def beat(
        self, lease: Lease, progress: Mapping[str, Any], log: Sequence[str], memory: Mapping[str, int] | None = None
    ) -> Job:
        """Extend a lease; raises LeaseLost when it has ended."""
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            job = replace(job, lease_until=now + self.times.lasts, progress=dict(progress) or job.progress)
            uow.jobs.put(job)
            if log:
                uow.jobs.add_log(job.id, log, now)
            self._record_sign_of_life(uow, job, memory or {})
        return job

    def begin_commit(self, lease: Lease) -> Job:
        """Record that the job is about to commit; raises LeaseLost when its lease has ended."""
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
        """End an attempt as its optimizer reports it; `outcome` None means that there was nothing to commit.

        The record of the job's commit overrules the report (docs/protocols.md, rule 2.6). Raises LeaseLost for an ended
        lease, and changes nothing then.
        """
        with self.database.writing() as uow:
            now = uow.now()
            job = check_lease(uow.jobs.lock(lease.job_id), lease)
            if log:
                uow.jobs.add_log(job.id, log, now)
            job = self._end_attempt(replace(job, error=error, result=dict(result)), outcome, uow)
            _save(uow, job)
            self._record_sign_of_life(uow, job, {})
        return job

    def _end_attempt(self, job: Job, outcome: Outcome | None, uow: UnitOfWork) -> Job:
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
        """End a job whose task cannot exist: its table is gone, or does not accept such jobs.

        A scheduled job succeeds with the reason as its result, because it would only fail again every hour.
        """
        job = self._load_job(lease)
        if kind_of(job.kind).is_only_scheduled and not job.was_requested and isinstance(error, Conflict | Invalid):
            return self.report(lease, None, error=None, result={"refused": error.message}, log=[error.message])
        return self.report(lease, Outcome.REFUSED, error=error.message, result={})

    def _load_job(self, lease: Lease) -> Job:
        with self.database.reading() as uow:
            return uow.jobs.get(lease.job_id)

    def _record_sign_of_life(self, uow: UnitOfWork, job: Job, memory: Mapping[str, int]) -> None:
        if job.owner is not None:
            uow.optimizers.record_heartbeat(job.owner, uow.now(), memory)

    def cancel(self, job_id: JobId) -> Job:
        """Cancel a job; its optimizer learns it with the next heartbeat. Raises Conflict when it has committed.

        A repeated request succeeds.
        """
        with self.database.writing() as uow:
            job = uow.jobs.lock(job_id)
            if job.status is not JobStatus.CANCELED:
                job = cancel_job(job, uow.now())
                _save(uow, job)
                if job.kind in self.hooks:
                    self.hooks[job.kind].canceled(uow, job)
        return job

    def retry(self, job_id: JobId) -> Job:
        """Create a new job like a failed or canceled one, under the current policy; raises Conflict as `run_now`."""
        with self.database.writing() as uow:
            old = uow.jobs.get(job_id)
            if old.status not in (JobStatus.FAILED, JobStatus.CANCELED):
                raise Conflict(f"job {job_id} is {old.status}: only failed and canceled jobs can be retried")
            if not old.can_retry:
                raise Conflict(
                    f"{old.table} may have changed in Hive since that sync listed its files",
                    hint="request a new sync: it lists the files again",
                )
            if old.kind in self.hooks:
                return self.hooks[old.kind].retry(uow, old)
            relation = uow.relations.get(old.relation_id)
            params = {name: value for name, value in old.params.items() if name != "state"}
            return create_requested_job(
                uow, relation, load_facts(uow, relation), old.kind, params, f"retry of {old.id}"
            )

    def reap(self) -> ReapedJobs:
        """End the leases of silent optimizers and settle their jobs; any server may run it at any time."""
        reaped = ReapedJobs()
        with self.database.reading() as uow:
            candidates = uow.jobs.with_status([JobStatus.RUNNING, JobStatus.COMMITTING, JobStatus.UNKNOWN])
        for candidate in candidates:
            with self.database.writing() as uow:
                reaped = self._reap_job(uow, candidate.id, reaped)
        return reaped

    def _reap_job(self, uow: UnitOfWork, job_id: JobId, reaped: ReapedJobs) -> ReapedJobs:
        before = uow.jobs.lock(job_id)
        now = uow.now()
        job = end_silent_lease(self._limit_lease(before, now), now)
        if job.status is JobStatus.UNKNOWN or (job.status is JobStatus.PENDING and before.status.is_leased):
            job = settle_unknown(job, now, max_attempts=self.times.max_attempts)
        if job == before:
            return reaped
        _save(uow, job)
        if job.status is before.status and job.status.is_leased:
            return reaped
        reason = before.error or f"{before.owner} fell silent while {before.status}"  # `postpone` sets the error
        uow.jobs.add_log(
            job.id,
            [f"attempt {before.attempt}: {reason}; now {job.status}"],
            now,
        )
        counters = {JobStatus.PENDING: "requeued", JobStatus.SUCCEEDED: "succeeded", JobStatus.FAILED: "failed"}
        counter = counters.get(job.status, "unknown")
        return replace(reaped, **{counter: getattr(reaped, counter) + 1})

    def _limit_lease(self, job: Job, now: datetime) -> Job:
        """Limit the lease to the end of one taken now; after the clock is set back, it would last too long."""
        if job.lease_until is None:
            return job
        return replace(job, lease_until=min(job.lease_until, now + self.times.lasts))


def _save(uow: UnitOfWork, job: Job) -> None:
    """Save a job; if it has ended, make its table due in the same transaction, because it may need another job."""
    uow.jobs.put(job)
    if not job.status.is_active:
        uow.stats.request_plans([job.relation_id], uow.now())


def _get_optimizer(uow: UnitOfWork, optimizer_id: str) -> Optimizer:
    optimizer = uow.optimizers.find(optimizer_id)
    if optimizer is None:
        raise NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
    return optimizer
