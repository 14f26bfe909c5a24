"""The planner loop: each run assesses the tables that have changed since their last assessment, or whose time is up.

The planner decides without a lock, then writes the job, the table status and the end of the assessment in one
transaction. If it dies before that, it has written nothing, and the table is still due. A commit during the assessment
makes the table due again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.jobs.blocker import find_longest_blocker
from catalog.jobs.job import Job
from catalog.jobs.optimizer_group import GroupName
from catalog.maintenance import decide_next_job
from catalog.names import RelationId
from catalog.planning import Due, NotDue, TableFacts
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from catalog.tables.table_status import PlanRequest, PlanResult
from server.service.jobs.admission import apply_policy
from server.service.jobs.job_queue import QuotaUsage, enqueue, keep_deadline, make_job
from server.service.leadership_fence import Fence, always_leads
from server.service.planning.health import build_table_status
from server.service.planning.planner import load_many_facts, load_past_jobs

BATCH = 200
"""Tables in one transaction: commits on them wait for it."""
MOST_BATCHES = 25
"""Batches in one run; then the server does other work."""
SWEPT = 10
"""Tables that a run assesses although nothing has requested it, in case a request was lost."""
SWEPT_AFTER = timedelta(days=1)
"""Age of an assessment after which the planner repeats it without a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerStatus:
    """Counts of one planner run."""

    assessed: int = 0
    planned: int = 0
    to_count: int = 0
    """Tables and stores whose files the server has to count again."""
    deposed: bool = False
    """Another server leads, so this one has not written its decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assessment:
    """One table with its open plan requests, and the decision about its next job."""

    relation: Relation
    facts: TableFacts
    requests: Sequence[PlanRequest]
    """The requests of the table, or those of its two stores."""
    active: Job | None
    decision: Due | NotDue

    @property
    def group(self) -> GroupName:
        """The optimizer group of the next job."""
        return GroupName(self.facts.policy["firn.optimize.group"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _MissingTables:
    """Tables that were due, or that have a status, but do not exist any more."""

    results: Sequence[PlanResult]
    swept: Sequence[RelationId]
    """Tables whose status the planner has to remove."""


@dataclass(frozen=True)
class PlannerLoop:
    """Assesses tables and plans their jobs. Runs of two servers at once are harmless: a unique index lets one win."""

    database: Database
    lease: timedelta

    def plan_unassessed(self) -> None:
        """Make all tables due that have no assessment; called at the start of a server."""
        with self.database.writing() as uow:
            uow.stats.plan_unassessed(uow.now())

    def run_once(self, fence: Fence = always_leads) -> PlannerStatus:
        """Assess the due tables, the longest due first; tables that become due during the run wait for the next."""
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
            assessments, missing = _assess_tables(uow, due, swept, now)
            due_groups = {assessment.group for assessment in assessments if isinstance(assessment.decision, Due)}
            quota_usage.load(uow, due_groups)
        with self.database.writing() as uow:
            if not fence(uow):
                return replace(status, deposed=True)
            planned = _write_assessments(uow, assessments, missing, quota_usage, now)
        return PlannerStatus(
            assessed=status.assessed + len(assessments),
            planned=status.planned + planned,
            to_count=status.to_count + sum(len(assessment.facts.to_count) for assessment in assessments),
        )


def _write_assessments(
    uow: UnitOfWork,
    assessments: Sequence[_Assessment],
    missing: _MissingTables,
    quota_usage: QuotaUsage,
    now: datetime,
) -> int:
    """Write statuses and jobs, and return the number of planned jobs.

    It skips tables that another request is dropping: nobody would remove the rows that it writes for them.
    """
    existing = uow.relations.lock_existing([assessment.relation.id for assessment in assessments])
    assessments = [assessment for assessment in assessments if assessment.relation.id in existing]
    blockers = uow.blockers.of(existing, now)  # a user may have just set one
    planned = 0
    for assessment in assessments:
        _update_waiting_job(uow, assessment, now)
        active_blockers = blockers.get(assessment.relation.id, ())
        decision = assessment.decision
        if isinstance(decision, Due) and not find_longest_blocker(active_blockers, (decision.kind,), now):
            planned += _plan_job(uow, assessment, decision, quota_usage, now)
    uow.layouts.request_counts([store_id for assessment in assessments for store_id in assessment.facts.to_count], now)
    statuses = [
        build_table_status(assessment.relation, assessment.facts, assessment.decision, now)
        for assessment in assessments
        if assessment.relation.owner_id is None  # lists show no quarantine beside its table
    ]
    uow.table_statuses.put(statuses)
    uow.table_statuses.remove(missing.swept)
    results = [result for assessment in assessments for result in _build_results(assessment)]
    uow.stats.record_plans([*missing.results, *results], now)
    return planned


def _update_waiting_job(uow: UnitOfWork, assessment: _Assessment, now: datetime) -> None:
    """Apply a changed policy to the active job: it may have to wait in another group, or end."""
    if assessment.active is None or apply_policy(assessment.active, assessment.facts.policy, now) == assessment.active:
        return
    job = uow.jobs.lock(assessment.active.id)  # an optimizer may have just taken it
    if (updated := apply_policy(job, assessment.facts.policy, now)) != job:
        uow.jobs.put(updated)


def _plan_job(uow: UnitOfWork, assessment: _Assessment, due: Due, quota_usage: QuotaUsage, now: datetime) -> bool:
    job = quota_usage.charge(make_job(assessment.relation, due, assessment.facts, now), assessment.facts.policy)
    job = keep_deadline(uow, job)
    return uow.jobs.add(job) if assessment.active is None else enqueue(uow, job, now)


def _assess_tables(
    uow: UnitOfWork, due: Collection[RelationId], swept: Collection[RelationId], now: datetime
) -> tuple[list[_Assessment], _MissingTables]:
    """Assess the tables behind the ids, which may be ids of stores, and collect the ids without a table."""
    relations = uow.relations.get_many([*due, *swept])
    owners = {
        relation.owner_id
        for relation in relations.values()
        if relation.owner_id is not None and not relation.kind.is_planned
    }
    relations = {**relations, **uow.relations.get_many(owners - relations.keys())}
    tables = [relation for relation in relations.values() if relation.kind.is_planned]
    facts = load_many_facts(uow, tables)
    stores = {table.id: _list_store_ids(table, facts[table.id]) for table in tables}
    requests = uow.stats.load_plan_requests(
        [*due, *(store_id for store_ids in stores.values() for store_id in store_ids)]
    )
    active = uow.jobs.active_of_many(facts)
    decisions = _decide(uow, facts, active, now)
    assessments = [
        _Assessment(
            relation=table,
            facts=facts[table.id],
            requests=[requests[store_id] for store_id in stores[table.id] if store_id in requests],
            active=active.get(table.id),
            decision=decisions[table.id],
        )
        for table in tables
    ]
    covered = {request.relation_id for assessment in assessments for request in assessment.requests}
    results = [
        PlanResult(request=requests[relation_id], next_at=None)
        for relation_id in due
        if relation_id in requests and relation_id not in covered
    ]
    without_table = [relation_id for relation_id in swept if relation_id not in facts]
    return assessments, _MissingTables(results=results, swept=without_table)


def _list_store_ids(relation: Relation, facts: TableFacts) -> list[RelationId]:
    """The relations that hold the plan requests of a table; the first also holds the time of its next assessment."""
    return [relation.id] if facts.keyed is None else [facts.keyed.base_id, facts.keyed.change_id]


def _decide(
    uow: UnitOfWork, facts: Mapping[RelationId, TableFacts], active: Mapping[RelationId, Job], now: datetime
) -> dict[RelationId, Due | NotDue]:
    """Decide the next job of each table.

    Idle tables cost no extra query: the planner loads past jobs only when they can change the decision.
    """
    decisions: dict[RelationId, Due | NotDue] = {}
    for relation_id, table_facts in facts.items():
        job = active.get(relation_id)
        decision = decide_next_job(table_facts, [] if job is None else [job], now)
        if isinstance(decision, Due):
            past = load_past_jobs(uow, relation_id)
            decision = decide_next_job(table_facts, past if job is None or job in past else [job, *past], now)
        decisions[relation_id] = decision
    return decisions


def _build_results(assessment: _Assessment) -> list[PlanResult]:
    """The end of each plan request; a planned job needs no time, because its end requests the next assessment."""
    next_at = assessment.decision.next_at if isinstance(assessment.decision, NotDue) else None
    return [
        PlanResult(request=request, next_at=None if number else next_at)
        for number, request in enumerate(assessment.requests)
    ]
