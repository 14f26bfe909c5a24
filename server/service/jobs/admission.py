"""Whether a job may begin now: blockers and windows, asked when it is planned and again when it is leased."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from catalog.errors import Conflict
from catalog.jobs.blocker import Blocker, find_longest_blocker
from catalog.jobs.job import AFTER_A_LOOK, Job, JobKind, JobStatus, withdraw_job
from catalog.names import RelationId
from catalog.planning.windows import open_now
from catalog.policy.policy import Policy
from catalog.ports.store import UnitOfWork
from server.service.planning.policies import load_policy


def find_blocker(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> Blocker | None:
    """Who keeps such jobs from the table now."""
    now = uow.now()
    return find_longest_blocker(uow.blockers.of([relation_id], now).get(relation_id, ()), (kind,), now)


def check_not_blocked(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> None:
    """Conflict while somebody keeps such jobs from the table."""
    blocker = find_blocker(uow, relation_id, kind)
    if blocker is not None:
        raise Conflict(f"the table is {blocker}", hint="`firn table unblock` lifts it; a running job goes on")


def admit(uow: UnitOfWork, job: Job) -> Job:
    """A pending job as it may begin now: as it is, moved to the group that its table has now, or given up.

    What was planned may have waited for an optimizer until its window closed or its policy changed. A job that has
    begun before goes on, and so does a sync: it looks for blockers itself and knows no windows.
    """
    now, policy = uow.now(), _policy(uow, job)
    job = apply_policy(job, policy, now)
    if not job.status.is_active or job.attempt > 0 or job.kind in AFTER_A_LOOK:
        return job
    blocker = find_blocker(uow, job.relation_id, job.kind)
    if blocker is not None:
        return withdraw_job(job, f"the table is {blocker}", now)
    if job.was_requested or open_now(policy, now):
        return job
    was_over = "the time in which jobs may begin was over before an optimizer was free"
    return withdraw_job(job, f"{was_over} (firn.optimize.window, not-during)", now)


def apply_policy(job: Job, policy: Policy, now: datetime) -> Job:
    """A job as its table's policy has it now: one that waits is moved to another group, or given up."""
    if job.status is not JobStatus.PENDING:
        return job
    if job.is_preemptible and not policy["firn.optimize.enabled"]:
        return withdraw_job(job, "optimizing was switched off by policy (firn.optimize.enabled=false)", now)
    return replace(job, group=policy["firn.optimize.group"])


def _policy(uow: UnitOfWork, job: Job) -> Policy:
    relation = uow.relations.get(job.relation_id)
    keyed = uow.keyed.get_many([relation.id]).get(relation.id)
    return load_policy(uow, relation, uow.stats.get(relation.id if keyed is None else keyed.base_id).properties)
