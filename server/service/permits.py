"""Whether a job may begin now: blockers and windows, asked when it is planned and again when it is leased."""

from __future__ import annotations

from catalog.blocker import Blocker, longest
from catalog.errors import Conflict
from catalog.job import Job, JobKind
from catalog.names import RelationId
from catalog.planning.windows import open_now
from catalog.policy.policy import Policy
from catalog.ports.store import UnitOfWork
from server.service.policies import policy_of


def blocked_by(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> Blocker | None:
    """Who keeps such jobs from the table now."""
    now = uow.now()
    return longest(uow.blockers.of([relation_id], now).get(relation_id, ()), (kind,), now)


def check_not_blocked(uow: UnitOfWork, relation_id: RelationId, kind: JobKind) -> None:
    """Conflict while somebody keeps such jobs from the table."""
    blocker = blocked_by(uow, relation_id, kind)
    if blocker is not None:
        raise Conflict(f"the table is {blocker}", hint="`firn table unblock` lifts it; a running job goes on")


def barred(uow: UnitOfWork, job: Job) -> str | None:
    """Why a pending job may not begin: what was planned may have waited for an optimizer until its window closed.

    A job that has begun before goes on, and so does a sync: it looks for blockers itself and knows no windows.
    """
    if job.attempt > 0 or job.kind is JobKind.SYNC:
        return None
    blocker = blocked_by(uow, job.relation_id, job.kind)
    if blocker is not None:
        return f"the table is {blocker}"
    if job.was_asked_for or open_now(_policy(uow, job), uow.now()):
        return None
    return "the time in which jobs may begin was over before an optimizer was free (firn.optimize.window, not-during)"


def _policy(uow: UnitOfWork, job: Job) -> Policy:
    relation = uow.relations.get(job.relation_id)
    keyed = uow.keyed.get_many([relation.id]).get(relation.id)
    return policy_of(uow, relation, uow.stats.get(relation.id if keyed is None else keyed.base_id).properties)
