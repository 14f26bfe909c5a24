"""Background jobs: their statuses and how each job ends. The rules are those of docs/protocols.md#jobs-and-leases.

The transaction that moves a table's pointer records the commit in the job's own row. Every later decision reads that
record. Leases are in catalog.jobs.leases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NewType, Self
from uuid import UUID

from catalog.errors import Conflict, IllegalTransition
from catalog.names import CatalogName, RelationId, TableName
from firn.protocol.jobs import JobKind, JobOutcome, JobStatus

__all__ = [
    "AFTER_A_LOOK",
    "BY_COMMITS",
    "CODE",
    "MAX_ATTEMPTS",
    "OVERTAKEN",
    "REMEMBERED_JOBS",
    "REQUESTED",
    "SEVERAL_COMMITS",
    "TRANSITIONS",
    "WITHDRAWN",
    "Attempt",
    "CommitRecord",
    "Job",
    "JobId",
    "JobKind",
    "JobOutcome",
    "JobStatus",
    "LeaseToken",
    "OptimizerId",
    "cancel_job",
    "change_status",
    "end_attempt",
    "end_job",
    "end_job_of_dropped_table",
    "supersede_job",
    "withdraw_job",
]

JobId = NewType("JobId", UUID)
OptimizerId = NewType("OptimizerId", str)
LeaseToken = NewType("LeaseToken", str)

REQUESTED = "requested"
"""The state of a requested job (see catalog.planning.Due); the planner does not decide about it."""
WITHDRAWN, OVERTAKEN = "withdrawn", "overtaken"
"""The states of jobs that were canceled before they did anything. The planner may plan the same work again."""
CODE = "code"
"""The parameter of a run that needs an optimizer which runs Python of users."""
MAX_ATTEMPTS = 10
"""The number of attempts that a job lists."""
REMEMBERED_JOBS = 8
"""The number of jobs of each kind and table that decisions read. The database keeps these whatever their age."""


SEVERAL_COMMITS = frozenset({JobKind.REWRITE, JobKind.COMPACT, JobKind.REWRITE_DELETES})
"""Kinds whose jobs may commit to one relation more than once. Earlier commits stay if a later one conflicts."""

BY_COMMITS = frozenset(
    {
        JobKind.MERGE,
        JobKind.REWRITE,
        JobKind.COMPACT,
        JobKind.REWRITE_DELETES,
        JobKind.REWRITE_MANIFESTS,
        JobKind.CLEAN,
        JobKind.TTL,
        JobKind.TAGS,
    }
)
"""Kinds whose only effect is a commit. A job without a commit had nothing to do."""

AFTER_A_LOOK = frozenset({JobKind.SYNC, JobKind.PUBLISH, JobKind.CONVERT})
"""Kinds that only a scan of Hive plans. A new request starts with another scan."""


_P, _R, _C, _S, _F, _U, _X = JobStatus
TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    _P: frozenset({_R, _F, _X}),
    _R: frozenset({_P, _C, _S, _F, _X}),
    _C: frozenset({_P, _S, _F, _U, _X}),
    _U: frozenset({_P, _S, _F, _X}),
    _S: frozenset(),
    _F: frozenset(),
    _X: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """A commit of a job to one relation. The transaction that applies the commit writes this record.

    `number` counts a job's commits to the relation from 1; kinds outside SEVERAL_COMMITS have only one. `digest`
    distinguishes the applied request from other requests under the same lease.
    """

    token: LeaseToken
    snapshot_id: int | None
    digest: str
    number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One lease of a job: the optimizer, the start, the end and the outcome."""

    number: int
    optimizer: str
    leased_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    engine: str | None = None
    """What runs a stream: `light` or `spark`. Jobs have none."""
    engine_reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The attempt as the database stores it."""
        ended_at = None if self.ended_at is None else self.ended_at.isoformat()
        stored = {"number": self.number, "optimizer": self.optimizer, "outcome": self.outcome}
        engine = {"engine": self.engine, "engine_reason": self.engine_reason} if self.engine is not None else {}
        return stored | {"leased_at": self.leased_at.isoformat(), "ended_at": ended_at} | engine

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The attempt from its stored form."""
        ended_at = None if stored["ended_at"] is None else datetime.fromisoformat(stored["ended_at"])
        return cls(**{**stored, "leased_at": datetime.fromisoformat(stored["leased_at"]), "ended_at": ended_at})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One unit of background work on one table, its subject.

    The subject of a run of a pipeline is a table of the pipeline's definition, not its target in the catalog. So a
    merge of the target may go on beside a run.

    `committed_by` is the token of its first applied commit: set once, never cleared.
    """

    id: JobId
    catalog: CatalogName
    subject_id: UUID
    """A subject has at most one active job."""
    table: TableName
    kind: JobKind
    status: JobStatus
    group: str
    reason: str
    created_at: datetime
    deadline: datetime
    """When it should have started. The queue takes the earliest deadline first (catalog.jobs.scheduling)."""
    priority: str = "normal"
    is_long: bool = False
    predicted_seconds: float = 0.0
    attempt: int = 0
    token: LeaseToken | None = None
    owner: OptimizerId | None = None
    leased_at: datetime | None = None
    lease_until: datetime | None = None
    committed_by: LeaseToken | None = None
    committed_snapshot_id: int | None = None
    ended_at: datetime | None = None
    error: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    predicted: dict[str, Any] = field(default_factory=dict)
    """The predicted gain and cost at planning time (catalog.jobs.prediction)."""
    attempts: tuple[Attempt, ...] = ()
    """The last MAX_ATTEMPTS, oldest first."""

    @property
    def relation_id(self) -> RelationId:
        """The table that it works on; for a run of a pipeline, an id that no table has."""
        return RelationId(self.subject_id)

    @property
    def outcome(self) -> JobOutcome | None:
        """The outcome of a succeeded job; None for all others."""
        if self.status is not JobStatus.SUCCEEDED:
            return None
        if self.committed_by is not None:
            return JobOutcome.COMMITTED
        return JobOutcome.NOTHING_TO_DO if self.kind in BY_COMMITS else JobOutcome.DONE

    @property
    def was_requested(self) -> bool:
        """Whether a user requested it. No window delays a requested job."""
        return self.params.get("state") == REQUESTED

    @property
    def is_preemptible(self) -> bool:
        """Whether another job may take its place: it has not started, no user requested it, and the planner can plan
        it again.
        """
        waits = self.status is JobStatus.PENDING and self.attempt == 0
        return waits and not self.was_requested and self.kind not in AFTER_A_LOOK

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was canceled before it did anything: it had not started, or its table was dropped."""
        return self.status is JobStatus.CANCELED and self.params.get("state") in (WITHDRAWN, OVERTAKEN)

    @property
    def was_overtaken(self) -> bool:
        """Whether it was withdrawn for a more urgent job."""
        return self.was_withdrawn and self.params["state"] == OVERTAKEN

    @property
    def answers_schedule(self) -> bool:
        """Whether it fulfils its scheduled time, or a user canceled it.

        Failed jobs, withdrawn jobs and dry runs do not.
        """
        return self.status is not JobStatus.FAILED and not self.was_withdrawn and not self.params.get("dry_run")

    @property
    def can_cancel(self) -> bool:
        """Whether the server accepts a cancellation: a job with a commit in the table cannot be canceled."""
        return self.status.is_active and self.committed_by is None

    @property
    def can_retry(self) -> bool:
        """Whether a new job can do the same work. Kinds that start with a scan of Hive cannot, because Hive may have
        changed.
        """
        return self.status in (JobStatus.FAILED, JobStatus.CANCELED) and self.kind not in AFTER_A_LOOK


def change_status(job: Job, to: JobStatus) -> Job:
    """The job in another status; IllegalTransition if no such transition exists. Leaving a leased status ends the
    lease.
    """
    if to not in TRANSITIONS[job.status]:
        raise IllegalTransition(job.id, job.status, to)
    if to.is_leased:
        return replace(job, status=to)
    return replace(job, status=to, token=None, lease_until=None)


def end_attempt(job: Job, outcome: str, now: datetime) -> Job:
    """The job with its current attempt ended. An ended attempt keeps its first outcome."""
    if not job.attempts or job.attempts[-1].ended_at is not None:
        return job
    over = replace(job.attempts[-1], ended_at=now, outcome=outcome)
    return replace(job, attempts=(*job.attempts[:-1], over))


def end_job(job: Job, to: JobStatus, now: datetime) -> Job:
    """The job in a final status."""
    return replace(change_status(end_attempt(job, str(to), now), to), ended_at=now)


def withdraw_job(job: Job, reason: str, now: datetime) -> Job:
    """A job canceled before it started, because it may not start now. The planner may plan the same work again."""
    return _withdraw(job, reason, WITHDRAWN, now)


def supersede_job(job: Job, by: Job, now: datetime) -> Job:
    """A job canceled before it started, because `by` takes its place: a table has one job at a time. The kind keeps
    its deadline.
    """
    reason = "a user requested it" if by.was_requested else "it is more urgent"
    return _withdraw(job, f"a {by.kind} job took its place ({reason}); it is planned again", OVERTAKEN, now)


def end_job_of_dropped_table(job: Job, reason: str, now: datetime) -> Job:
    """The job of a dropped table; call it with the job's row locked.

    No commit under its lease can follow, so its record decides, even for a committing or unknown job. Without a commit
    the job counts as withdrawn: after an undrop the planner may plan it again.
    """
    if job.committed_by is not None:
        return end_job(job, JobStatus.SUCCEEDED, now)
    return _withdraw(job, reason, WITHDRAWN, now)


def _withdraw(job: Job, reason: str, state: str, now: datetime) -> Job:
    return end_job(replace(job, error=reason, params=job.params | {"state": state}), JobStatus.CANCELED, now)


def cancel_job(job: Job, now: datetime) -> Job:
    """The job as canceled by a user; Conflict if its commit is already in the table (docs/protocols.md, rule 2.6)."""
    if job.committed_by is not None:
        raise Conflict(f"job {job.id} has committed, so it cannot be canceled")
    return end_job(job, JobStatus.CANCELED, now)
