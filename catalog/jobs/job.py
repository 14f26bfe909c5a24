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

REQUESTED = "asked for"
"""The state (see catalog.planning.Due) that a job has which somebody wants whatever the planner thinks."""
WITHDRAWN, OVERTAKEN = "withdrawn", "overtaken"
"""The states of jobs that were given up before they had done anything: the table's own may be planned for again."""
MAX_ATTEMPTS = 10
"""That a job tells of."""
REMEMBERED_JOBS = 8
"""Of each kind and table: so many decisions look back on, and so many are kept however old they are."""


SEVERAL_COMMITS = frozenset({JobKind.REWRITE, JobKind.COMPACT, JobKind.REWRITE_DELETES})
"""Kinds whose jobs may commit to one relation more than once: what is done stays when a later part conflicts."""

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
"""Kinds that do nothing but commit: without a commit there was nothing to do."""

AFTER_A_LOOK = frozenset({JobKind.SYNC, JobKind.PUBLISH, JobKind.CONVERT})
"""Kinds that only a look at Hive plans: asking for one again begins with another look."""


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
    """What a job has committed to one relation, noted by the transaction that applied it.

    `number` counts a job's commits to the relation from 1; kinds outside SEVERAL_COMMITS never come further. `digest`
    tells the request that was applied from another one under the same lease.
    """

    token: LeaseToken
    snapshot_id: int | None
    digest: str
    number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One time that an optimizer had a job: which it was, from when to when, and how that ended."""

    number: int
    optimizer: str
    leased_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        ended_at = None if self.ended_at is None else self.ended_at.isoformat()
        said = {"number": self.number, "optimizer": self.optimizer, "outcome": self.outcome}
        return said | {"leased_at": self.leased_at.isoformat(), "ended_at": ended_at}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """As it was stored."""
        ended_at = None if said["ended_at"] is None else datetime.fromisoformat(said["ended_at"])
        return cls(**{**said, "leased_at": datetime.fromisoformat(said["leased_at"]), "ended_at": ended_at})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One unit of background work on one table.

    `committed_by` is the token under which its first commit was applied: set once, never cleared.
    """

    id: JobId
    catalog: CatalogName
    relation_id: RelationId
    table: TableName
    kind: JobKind
    status: JobStatus
    group: str
    reason: str
    created_at: datetime
    deadline: datetime
    """Until when it should have begun: the earliest is taken first (catalog.jobs.scheduling)."""
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
    """What it was expected to gain and to cost when it was planned (catalog.jobs.prediction)."""
    attempts: tuple[Attempt, ...] = ()
    """The last MOST_ATTEMPTS, oldest first."""

    @property
    def outcome(self) -> JobOutcome | None:
        """None unless it has succeeded."""
        if self.status is not JobStatus.SUCCEEDED:
            return None
        if self.committed_by is not None:
            return JobOutcome.COMMITTED
        return JobOutcome.NOTHING_TO_DO if self.kind in BY_COMMITS else JobOutcome.DONE

    @property
    def was_requested(self) -> bool:
        """Whether somebody wants it now: no window holds it up."""
        return self.params.get("state") == REQUESTED

    @property
    def is_preemptible(self) -> bool:
        """Whether it only waits: nobody has begun it or asked for it, and the planner can plan it again."""
        waits = self.status is JobStatus.PENDING and self.attempt == 0
        return waits and not self.was_requested and self.kind not in AFTER_A_LOOK

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was given up before it had done anything: nobody had begun it, or its table was dropped."""
        return self.status is JobStatus.CANCELED and self.params.get("state") in (WITHDRAWN, OVERTAKEN)

    @property
    def was_overtaken(self) -> bool:
        """Whether that was for a more urgent job."""
        return self.was_withdrawn and self.params["state"] == OVERTAKEN

    @property
    def answers_schedule(self) -> bool:
        """Whether it has done what a schedule's moment asked for, or somebody has canceled it.

        One that failed, that was given up before it began, or that only looked has not.
        """
        return self.status is not JobStatus.FAILED and not self.was_withdrawn and not self.params.get("dry_run")

    @property
    def can_cancel(self) -> bool:
        """Whether cancelling would be accepted: a job whose commit is in the table is not taken back."""
        return self.status.is_active and self.committed_by is None

    @property
    def can_retry(self) -> bool:
        """Whether a new job can do the same: some begin with a look at Hive, which may have changed since."""
        return self.status in (JobStatus.FAILED, JobStatus.CANCELED) and self.kind not in AFTER_A_LOOK


def change_status(job: Job, to: JobStatus) -> Job:
    """The job in another status; IllegalMove when there is no such move. Leaving a leased status ends the lease."""
    if to not in TRANSITIONS[job.status]:
        raise IllegalTransition(job.id, job.status, to)
    if to.is_leased:
        return replace(job, status=to)
    return replace(job, status=to, token=None, lease_until=None)


def end_attempt(job: Job, outcome: str, now: datetime) -> Job:
    """The first word stands: of an attempt that fell silent nothing else is learned."""
    if not job.attempts or job.attempts[-1].ended_at is not None:
        return job
    over = replace(job.attempts[-1], ended_at=now, outcome=outcome)
    return replace(job, attempts=(*job.attempts[:-1], over))


def end_job(job: Job, to: JobStatus, now: datetime) -> Job:
    """The job in a final status."""
    return replace(change_status(end_attempt(job, str(to), now), to), ended_at=now)


def withdraw_job(job: Job, reason: str, now: datetime) -> Job:
    """A job that nobody has begun, given up because it may not begin now; its state may be planned for again."""
    return _given_up(job, reason, WITHDRAWN, now)


def supersede_job(job: Job, by: Job, now: datetime) -> Job:
    """The same for a job that another one goes before: a table has one at a time. The kind keeps its deadline."""
    said = "somebody has asked for it" if by.was_requested else "it is more urgent"
    return _given_up(job, f"a {by.kind} job has taken its place ({said}); it is planned again", OVERTAKEN, now)


def end_job_of_dropped_table(job: Job, reason: str, now: datetime) -> Job:
    """The job of a table that leaves the catalog; call it with the job's row locked.

    No commit under its lease can follow, so its record decides, also for one that was committing or unknown. Without a
    commit the job counts as withdrawn: should the table come back, it may be planned again.
    """
    if job.committed_by is not None:
        return end_job(job, JobStatus.SUCCEEDED, now)
    return _given_up(job, reason, WITHDRAWN, now)


def _given_up(job: Job, reason: str, state: str, now: datetime) -> Job:
    return end_job(replace(job, error=reason, params=job.params | {"state": state}), JobStatus.CANCELED, now)


def cancel_job(job: Job, now: datetime) -> Job:
    """The job as a person gives it up; Conflict when its commit is already in the table
    (docs/protocols.md, rule 2.6).
    """
    if job.committed_by is not None:
        raise Conflict(f"job {job.id} has committed already and cannot be canceled")
    return end_job(job, JobStatus.CANCELED, now)
