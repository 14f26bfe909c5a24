"""How a job gets into the queue of its group, and which job comes out of it next."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from catalog.fairness import SHARED_OVER, Used, deadline, is_long, long_limit, used_by
from catalog.group import GroupName
from catalog.job import Job, JobId, JobKind, JobStatus
from catalog.planning import Due, TableFacts
from catalog.policy.policy import Policy
from catalog.ports.store import UnitOfWork
from catalog.relation import Relation


def queued(relation: Relation, due: Due, facts: TableFacts, now: datetime, *, asked: bool = False) -> Job:
    """A pending job with its place in the queue; one that somebody has asked for goes before what is planned since."""
    policy, gain = facts.policy, due.predicted
    priority = policy["firn.optimize.priority"]
    return Job(
        id=JobId(uuid4()),
        catalog=relation.catalog,
        relation_id=relation.id,
        table=relation.name,
        kind=due.kind,
        status=JobStatus.PENDING,
        group=policy["firn.optimize.group"],
        reason=due.why,
        created_at=now,
        deadline=deadline(due.kind, priority, now, asked=asked),
        priority=priority,
        is_long=gain is not None and is_long(gain.seconds, gain.work),
        predicted_seconds=0.0 if gain is None else gain.seconds,
        params={"state": due.state, **due.params},
        predicted={} if gain is None else gain.as_json(),
    )


@dataclass
class Shares:
    """What the catalogs and tables of each group use, looked up once and kept while jobs are planned."""

    uow: UnitOfWork
    now: datetime
    lease: timedelta
    _used: dict[GroupName, Used] = field(default_factory=dict)
    _quotas: dict[GroupName, float] = field(default_factory=dict)

    def charged(self, job: Job, policy: Policy) -> Job:
        """The job with a later deadline where its table or catalog has had more than its share."""
        group = GroupName(job.group)
        used, quota = self._of(group), self._quota(group)
        back = used.back(job.catalog, job.relation_id, table_quota=policy["firn.optimize.quota"], catalog_quota=quota)
        used.add(job.catalog, job.relation_id, job.predicted_seconds)
        return replace(job, deadline=deadline(job.kind, job.priority, job.created_at, back=back))

    def _quota(self, group: GroupName) -> float:
        if group not in self._quotas:
            self._quotas[group] = self.uow.groups.settings_of(group).catalog_quota
        return self._quotas[group]

    def _of(self, group: GroupName) -> Used:
        if group not in self._used:
            ran = self.uow.queue.ran_since(group, self.now - SHARED_OVER)
            used = used_by(ran, slots_of(self.uow, group, self.now, self.lease), self.now)
            for catalog, table, seconds in self.uow.queue.pending_seconds(group):
                used.add(catalog, table, seconds)
            self._used[group] = used
        return self._used[group]


def slots_of(uow: UnitOfWork, group: GroupName, now: datetime, lease: timedelta) -> int:
    """Jobs that the living optimizers of a group run side by side."""
    living = [one for one in uow.optimizers.list() if one.group == group and now - one.last_seen_at <= lease]
    return sum(one.slots for one in living)


def next_job(
    uow: UnitOfWork, group: GroupName, kinds: Collection[JobKind], lease: timedelta, *, taking: bool
) -> Job | None:
    """The pending job whose deadline is the earliest; a short one while long ones have all the slots they may have.

    Whoever is `taking` it decides alone for the group, or two would each take the last slot for long jobs.
    """
    first = uow.jobs.next_pending(group, kinds)
    if first is None or not first.is_long:
        return first
    if taking:
        uow.queue.hold(group)
    limit = long_limit(slots_of(uow, group, uow.now(), lease), uow.groups.settings_of(group).reserved_slots)
    if uow.queue.long_leased(group) < limit:
        return first
    return uow.jobs.next_pending(group, kinds, long=False)
