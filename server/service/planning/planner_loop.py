"""The planner's round: tables that changed since it last looked, and those whose time has come. No others.

A look is decided upon outside of any lock and then written at once: the job, how the table stands, and that it was
looked at. Who is killed in between has written nothing, and the table is still to be looked at; what was asked for
meanwhile, such as a commit, leaves it to be looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.jobs.blocker import find_longest_blocker
from catalog.jobs.job import Job
from catalog.jobs.optimizer_group import GroupName
from catalog.maintenance import decide_next_job
from catalog.maintenance.health import compute_health
from catalog.names import RelationId
from catalog.planning import Due, NotDue, TableFacts
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from catalog.tables.table_status import PlanRequest, PlanResult, TableStatus
from server.service.jobs.admission import apply_policy
from server.service.jobs.job_queue import QuotaUsage, enqueue, keep_deadline, make_job
from server.service.planning.planner import PLANNED_KINDS, load_many_facts, load_past_jobs

BATCH = 200
"""Tables in one transaction: commits on them wait while it is written."""
MOST_BATCHES = 25
"""In one round; then other work of the server has its turn."""
SWEPT = 10
"""Tables a round that are looked at though nobody asked: should something have failed to ask, it shows within days."""
SWEPT_AFTER = timedelta(days=1)

Fence = Callable[[UnitOfWork], bool]
"""Whether this server still leads, checked in the transaction that plans."""


def always_leads(_uow: UnitOfWork) -> bool:
    """For a server that is known to be alone."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerStatus:
    """What one round of planning did."""

    looked_at: int = 0
    planned: int = 0
    to_count: int = 0
    """Tables and stores whose files are to be counted again."""
    deposed: bool = False
    """Another server leads: what this one had decided was not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assessment:
    """One table as it was looked at: what was asked for until then, and what is decided."""

    relation: Relation
    facts: TableFacts
    looks: Sequence[PlanRequest]
    """Its own, or those of its two stores."""
    active: Job | None
    decision: Due | NotDue

    @property
    def group(self) -> GroupName:
        """That its next job goes to."""
        return GroupName(self.facts.policy["firn.optimize.group"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _MissingTables:
    """What was to be looked at and is not there any more."""

    looks: Sequence[PlanResult]
    swept: Sequence[RelationId]
    """That had a standing all the same."""


@dataclass(frozen=True)
class PlannerLoop:
    """Looks at tables and plans their jobs. Rounds of two servers at once are harmless: a unique index lets one win."""

    database: Database
    lease: timedelta

    def plan_unassessed(self) -> None:
        """When a server starts: let tables that nobody has looked at yet be looked at."""
        with self.database.writing() as uow:
            uow.stats.plan_unassessed(uow.now())

    def run_once(self, fence: Fence = always_leads) -> PlannerStatus:
        """Look at what is due, longest due first; what becomes due meanwhile waits for the next round."""
        status = PlannerStatus()
        with self.database.reading() as uow:
            until = uow.now()
            due = uow.stats.due(until, limit=BATCH)
            swept = uow.table_statuses.long_ago(until - SWEPT_AFTER, until, limit=SWEPT) if len(due) < BATCH else []
        batches, quota_usage = 0, QuotaUsage(self.lease)
        while due or swept:
            status = self._plan_batch(due, swept, quota_usage, status, fence)
            batches += 1
            if status.deposed or len(due) < BATCH or batches == MOST_BATCHES:
                break
            with self.database.reading() as uow:
                due, swept = uow.stats.due(until, limit=BATCH), []
        return status

    def _plan_batch(
        self,
        due: Collection[RelationId],
        swept: Collection[RelationId],
        quota_usage: QuotaUsage,
        status: PlannerStatus,
        fence: Fence,
    ) -> PlannerStatus:
        with self.database.reading() as uow:
            now = uow.now()
            seen, gone = _assess(uow, due, swept, now)
            quota_usage.load(uow, {assessment.group for assessment in seen if isinstance(assessment.decision, Due)})
        with self.database.writing() as uow:
            if not fence(uow):
                return replace(status, deposed=True)
            planned = _write(uow, seen, gone, quota_usage, now)
        return PlannerStatus(
            looked_at=status.looked_at + len(seen),
            planned=status.planned + planned,
            to_count=status.to_count + sum(len(assessment.facts.to_count) for assessment in seen),
        )


def _write(
    uow: UnitOfWork, seen: Sequence[_Assessment], gone: _MissingTables, quota_usage: QuotaUsage, now: datetime
) -> int:
    """Who is being dropped at this moment is left alone: what is written of it now nobody would remove."""
    there = uow.relations.held([assessment.relation.id for assessment in seen])
    seen = [assessment for assessment in seen if assessment.relation.id in there]
    blockers = uow.blockers.of(there, now)  # somebody may have just set one
    planned = 0
    for assessment in seen:
        _follow_policy(uow, assessment, now)
        kept = blockers.get(assessment.relation.id, ())
        if isinstance(assessment.decision, Due) and not find_longest_blocker(kept, (assessment.decision.kind,), now):
            planned += _plan(uow, assessment, assessment.decision, quota_usage, now)
    uow.layouts.want([one_id for assessment in seen for one_id in assessment.facts.to_count], now)
    uow.table_statuses.put([_table_status(assessment, now) for assessment in seen])
    uow.table_statuses.remove(gone.swept)
    uow.stats.looked([*gone.looks, *(done for assessment in seen for done in _looked(assessment))], now)
    return planned


def _follow_policy(uow: UnitOfWork, assessment: _Assessment, now: datetime) -> None:
    """A job that waits in a group that its table has no more, or for a table that is switched off, would wait on."""
    if assessment.active is None or apply_policy(assessment.active, assessment.facts.policy, now) == assessment.active:
        return
    job = uow.jobs.lock(assessment.active.id)  # an optimizer may have just taken it
    if (as_it_should := apply_policy(job, assessment.facts.policy, now)) != job:
        uow.jobs.put(as_it_should)


def _plan(uow: UnitOfWork, assessment: _Assessment, due: Due, quota_usage: QuotaUsage, now: datetime) -> bool:
    job = quota_usage.charge(make_job(assessment.relation, due, assessment.facts, now), assessment.facts.policy)
    job = keep_deadline(uow, job)
    return uow.jobs.add(job) if assessment.active is None else enqueue(uow, job, now)


def _assess(
    uow: UnitOfWork, due: Collection[RelationId], swept: Collection[RelationId], now: datetime
) -> tuple[list[_Assessment], _MissingTables]:
    """The tables that these are, or are stores of, decided upon; and what is not there any more."""
    asked = uow.relations.get_many([*due, *swept])
    owners = {relation.owner_id for relation in asked.values() if relation.owner_id is not None}
    known = {**asked, **uow.relations.get_many(owners - asked.keys())}
    tables = [relation for relation in known.values() if relation.kind in PLANNED_KINDS]
    facts = load_many_facts(uow, tables)
    stores = {table.id: _stores(table, facts[table.id]) for table in tables}
    looks = uow.stats.looks([*due, *(store for of in stores.values() for store in of)])
    active = uow.jobs.active_of_many(facts)
    decisions = _decide(uow, facts, active, now)
    seen = [
        _Assessment(
            relation=table,
            facts=facts[table.id],
            looks=[looks[store] for store in stores[table.id] if store in looks],
            active=active.get(table.id),
            decision=decisions[table.id],
        )
        for table in tables
    ]
    covered = {look.relation_id for assessment in seen for look in assessment.looks}
    over = [
        PlanResult(look=looks[relation_id], next_at=None)
        for relation_id in due
        if relation_id in looks and relation_id not in covered
    ]
    return seen, _MissingTables(looks=over, swept=[relation_id for relation_id in swept if relation_id not in facts])


def _stores(relation: Relation, facts: TableFacts) -> list[RelationId]:
    """What its commits are counted by; when it is to be looked at next stands with the first."""
    return [relation.id] if facts.keyed is None else [facts.keyed.base_id, facts.keyed.change_id]


def _decide(
    uow: UnitOfWork, facts: Mapping[RelationId, TableFacts], active: Mapping[RelationId, Job], now: datetime
) -> dict[RelationId, Due | NotDue]:
    """Jobs of the past are looked up only where they could change the decision: idle tables cost nothing more."""
    found: dict[RelationId, Due | NotDue] = {}
    for relation_id, known in facts.items():
        job = active.get(relation_id)
        decision = decide_next_job(known, [] if job is None else [job], now)
        if isinstance(decision, Due):
            past = load_past_jobs(uow, relation_id)
            decision = decide_next_job(known, past if job is None or job in past else [job, *past], now)
        found[relation_id] = decision
    return found


def _looked(assessment: _Assessment) -> list[PlanResult]:
    """A job that was planned asks for the next look when it ends."""
    next_at = assessment.decision.next_at if isinstance(assessment.decision, NotDue) else None
    return [PlanResult(look=look, next_at=None if number else next_at) for number, look in enumerate(assessment.looks)]


def _table_status(assessment: _Assessment, now: datetime) -> TableStatus:
    stats, keyed, decision = assessment.facts.stats, assessment.facts.keyed, assessment.decision
    health = compute_health(assessment.facts, now)
    return TableStatus(
        relation_id=assessment.relation.id,
        catalog=assessment.relation.catalog,
        looked_at=now,
        due=isinstance(decision, Due),
        kind=decision.kind,
        reason=decision.reason,
        next_at=decision.next_at if isinstance(decision, NotDue) else None,
        health=health.score,
        parts={str(loss.part): loss.points_lost for loss in health.parts if loss.points_lost},
        bytes=stats.bytes,
        data_files=stats.data_files,
        pending_rows=0 if keyed is None else keyed.pending_rows,
        last_commit_at=_latest(assessment.facts),
    )


def _latest(facts: TableFacts) -> datetime | None:
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    return max((stats.last_commit_at for stats in stores if stats.last_commit_at is not None), default=None)
