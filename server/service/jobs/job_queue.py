"""The job queues of optimizer groups: adds jobs, computes their deadlines, and finds the next job."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from catalog.jobs.job import Job, JobId, JobKind, JobStatus, supersede_job
from catalog.jobs.optimizer_group import GroupName
from catalog.jobs.scheduling import (
    USAGE_WINDOW,
    SlotUsage,
    compute_deadline,
    is_long,
    limit_long_jobs,
    measure_usage,
    should_take_requested_first,
)
from catalog.maintenance import kind_of
from catalog.planning import Due, TableFacts
from catalog.policy.policy import Policy
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation


def make_job(relation: Relation, due: Due, facts: TableFacts, now: datetime, *, requested: bool = False) -> Job:
    """Build a pending job with its deadline, which decides its place in the queue."""
    policy, prediction = facts.policy, due.predicted
    priority = policy["firn.optimize.priority"]
    return Job(
        id=JobId(uuid4()),
        catalog=relation.catalog,
        subject_id=relation.id,
        table=relation.name,
        kind=due.kind,
        status=JobStatus.PENDING,
        group=policy["firn.optimize.group"],
        reason=due.reason,
        created_at=now,
        deadline=compute_deadline(kind_of(due.kind).max_wait, priority, now, requested=requested),
        priority=priority,
        is_long=prediction is not None and is_long(prediction.seconds, prediction.work),
        predicted_seconds=0.0 if prediction is None else prediction.seconds,
        params={"state": due.state, **due.params},
        predicted={} if prediction is None else prediction.as_json(),
    )


def enqueue(uow: UnitOfWork, job: Job, now: datetime) -> bool:
    """Add a job; it supersedes a waiting job of the table if it is requested or due earlier.

    False when the table keeps another active job, or was dropped since the planner assessed it.
    """
    if not uow.relations.lock_existing([job.relation_id]):
        return False
    active = uow.jobs.active_of(job.relation_id)
    waiting = None if active is None else uow.jobs.lock(active.id)
    if waiting is not None and waiting.is_preemptible and (job.was_requested or job.deadline < waiting.deadline):
        uow.jobs.put(supersede_job(waiting, job, now))
    return uow.jobs.add(job)


def keep_deadline(uow: UnitOfWork, job: Job) -> Job:
    """Keep the earlier deadline of a superseded job of the same kind, or urgent jobs would overtake it for ever."""
    last = uow.jobs.last_of(job.relation_id, job.kind)
    return job if last is None or not last.was_overtaken else replace(job, deadline=min(job.deadline, last.deadline))


@dataclass
class QuotaUsage:
    """The slot usage of catalogs and tables in each group, loaded once per run of the planner."""

    lease: timedelta
    _used: dict[GroupName, SlotUsage] = field(default_factory=dict)
    _quotas: dict[GroupName, float] = field(default_factory=dict)

    def load(self, uow: UnitOfWork, groups: Collection[GroupName]) -> None:
        """Load the usage of groups that are not loaded yet; slightly outdated numbers do no harm."""
        for group in {*groups} - self._used.keys():
            self._quotas[group] = uow.groups.settings_of(group).catalog_quota
            self._used[group] = self._measure(uow, group, uow.now())

    def charge(self, job: Job, policy: Policy) -> Job:
        """Return the job, with a later deadline if its table or catalog has used more than its quota."""
        group = GroupName(job.group)
        used, quota = self._used[group], self._quotas[group]
        penalty = used.penalty(
            job.catalog, job.relation_id, table_quota=policy["firn.optimize.quota"], catalog_quota=quota
        )
        used.add(job.catalog, job.relation_id, job.predicted_seconds)
        return replace(
            job, deadline=compute_deadline(kind_of(job.kind).max_wait, job.priority, job.created_at, penalty=penalty)
        )

    def _measure(self, uow: UnitOfWork, group: GroupName, now: datetime) -> SlotUsage:
        used = measure_usage(
            uow.queue.ran_since(group, now - USAGE_WINDOW), count_slots(uow, group, now, self.lease), now
        )
        for catalog, seconds in uow.queue.pending_seconds(group).items():
            used.by_catalog[catalog] = used.by_catalog.get(catalog, 0.0) + seconds
        return used


def count_slots(uow: UnitOfWork, group: GroupName, now: datetime, lease: timedelta) -> int:
    """The slots of the optimizers in a group that are not silent."""
    living = [
        optimizer
        for optimizer in uow.optimizers.list()
        if optimizer.group == group and now - optimizer.last_seen_at <= lease
    ]
    return sum(optimizer.slots for optimizer in living)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a free slot of a group takes: jobs of these kinds, and runs with Python only with `allow_code`.

    `taking` locks the job.
    """

    group: GroupName
    kinds: Collection[JobKind]
    lease: timedelta
    allow_code: bool = False
    taking: bool = False


def find_next_job(uow: UnitOfWork, search: Search) -> Job | None:
    """The next pending job (catalog.jobs.scheduling): the earliest requested or the earliest planned one."""
    requested = should_take_requested_first(last_was_asked=uow.queue.last_was_asked(search.group))
    return _find_earliest(uow, search, requested=requested) or _find_earliest(uow, search, requested=not requested)


def _find_earliest(uow: UnitOfWork, search: Search, *, requested: bool) -> Job | None:
    """The pending job with the earliest deadline; a short job while long jobs have all the slots that they may have.

    With `taking` it locks the group, so that two optimizers do not both take the last slot for long jobs.
    """
    group, kinds, taking, code = search.group, search.kinds, search.taking, search.allow_code
    first = uow.jobs.next_pending(group, kinds, requested=requested, allow_code=code, lock=taking)
    if first is None or not first.is_long:
        return first
    if taking:
        uow.queue.hold(group)
    limit = limit_long_jobs(
        count_slots(uow, group, uow.now(), search.lease), uow.groups.settings_of(group).reserved_slots
    )
    if uow.queue.long_leased(group) < limit:
        return first
    return uow.jobs.next_pending(group, kinds, requested=requested, long=False, allow_code=code, lock=taking)
