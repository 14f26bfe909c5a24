"""Admission: blockers and windows decide whether a job may begin, when it is planned and again when it is leased."""

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
from catalog.tables.relation import Relation
from server.service.pipelines.targets import load_target_policy
from server.service.planning.policies import load_stored_policy


def find_blocker(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> Blocker | None:
    """The blocker that currently keeps jobs of this kind from the table the longest; None without one."""
    now = uow.now()
    return find_longest_blocker(uow.blockers.of([relation_id], now).get(relation_id, ()), (kind,), now)


def check_not_blocked(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> None:
    """Raise Conflict while a blocker keeps jobs of this kind from the table."""
    blocker = find_blocker(uow, relation_id, kind)
    if blocker is not None:
        raise Conflict(
            f"the table is {blocker}", hint="`firn table unblock` removes the blocker; running jobs continue"
        )


def admit(uow: UnitOfWork, job: Job) -> Job:
    """Return the pending job unchanged if it may begin; otherwise moved to its table's group, or withdrawn.

    While a planned job waits for an optimizer, its window may close or its policy may change. A job that has run before
    continues. A sync continues too: it checks blockers itself and has no windows.
    """
    now, policy = uow.now(), _load_policy(uow, job)
    job = apply_policy(job, policy, now)
    if not job.status.is_active or job.attempt > 0 or job.kind in AFTER_A_LOOK:
        return job
    blocked_id = _find_blocked_id(uow, job)
    blocker = None if blocked_id is None else find_blocker(uow, blocked_id, job.kind)
    if blocker is not None:
        return withdraw_job(job, f"the table is {blocker}", now)
    if job.was_requested or open_now(policy, now):
        return job
    reason = "the window for jobs closed before an optimizer was free (firn.optimize.window, not-during)"
    return withdraw_job(job, reason, now)


def apply_policy(job: Job, policy: Policy, now: datetime) -> Job:
    """Apply the table's current policy to a waiting job: move it to another group, or withdraw it."""
    if job.status is not JobStatus.PENDING:
        return job
    if job.is_preemptible and not policy["firn.optimize.enabled"]:
        return withdraw_job(job, "optimizing was switched off by policy (firn.optimize.enabled=false)", now)
    return replace(job, group=policy["firn.optimize.group"])


def find_blocked_id(relation: Relation) -> RelationId:
    """The table whose blockers jobs obey: for a quarantine, its keyed table."""
    return relation.owner_id or relation.id


def _find_blocked_id(uow: UnitOfWork, job: Job) -> RelationId | None:
    """The table whose blockers a job obeys: for a run, its target, which may not exist yet."""
    if job.kind is not JobKind.PIPELINE:
        return find_blocked_id(uow.relations.get(job.relation_id))
    target = uow.relations.find(job.catalog, job.table)
    return None if target is None else target.id


def _load_policy(uow: UnitOfWork, job: Job) -> Policy:
    if job.kind is JobKind.PIPELINE:
        return load_target_policy(uow, job.catalog, job.table)
    return load_stored_policy(uow, uow.relations.get(job.relation_id))
