"""Planning: which tables need which job, from stored statistics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from catalog.blocker import Blocker, longest
from catalog.errors import Conflict, Invalid
from catalog.job import ASKED_FOR, Job, JobId, JobKind, JobStatus
from catalog.keyed.spec import KeyedTable
from catalog.names import CatalogName, RelationId, TableName
from catalog.planning import Due, NotDue, TableFacts, decided
from catalog.planning.prediction import predicted
from catalog.policy.policy import Policy
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation, RelationKind, TableStats
from server.service.facts import existing_table
from server.service.permits import check_not_blocked
from server.service.policies import policy_of

BATCH = 500
REMEMBERED_JOBS = 8
"""Of each kind."""
PLANNED_KINDS = (RelationKind.TABLE, RelationKind.KEYED)
_FOR_PLAIN = frozenset({JobKind.REWRITE, JobKind.DELETES, JobKind.MANIFESTS, JobKind.EXPIRE, JobKind.ORPHANS})
_FOR_KEYED = _FOR_PLAIN | {JobKind.MERGE, JobKind.COMPACT, JobKind.CLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """What one round of planning did."""

    looked_at: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What will be done next to a table, and by which policy."""

    decision: Due | NotDue
    policy: Policy
    facts: TableFacts
    now: datetime


@dataclass(frozen=True)
class Planner:
    """Plans jobs; several planners at once are harmless, a unique index lets one win."""

    database: Database

    def tick(self) -> PlanStatus:
        """Look at every table once."""
        status = PlanStatus()
        with self.database.reading() as uow:
            names = [catalog.name for catalog in uow.catalogs.list()]
        for name in names:
            status = self._tick_catalog(name, status)
        return status

    def _tick_catalog(self, catalog: CatalogName, status: PlanStatus) -> PlanStatus:
        cursor: str | None = None
        while True:
            with self.database.reading() as uow:
                page = uow.relations.list(catalog, None, PLANNED_KINDS, limit=BATCH, cursor=cursor)
                due = list(_due(uow, page.items))
            planned = sum(self._plan(relation, decision) is not None for relation, decision in due)
            status = PlanStatus(looked_at=status.looked_at + len(page.items), planned=status.planned + planned)
            if page.next_cursor is None:
                return status
            cursor = page.next_cursor

    def _plan(self, relation: Relation, due: Due) -> Job | None:
        with self.database.writing() as uow:
            facts = facts_of(uow, relation)
            if longest(facts.blockers, (due.kind,), uow.now()) is not None:
                return None
            job = planned_job(relation, due, group=facts.policy["firn.optimize.group"], now=uow.now())
            return job if uow.jobs.add(job) else None

    def outlook(self, catalog: CatalogName, name: TableName) -> Outlook:
        """What comes next for a table and why."""
        with self.database.reading() as uow:
            relation = planned_relation(uow, catalog, name)
            facts = facts_of(uow, relation)
            past, now = past_of(uow, relation.id), uow.now()
            return Outlook(decision=decided(facts, past, now), policy=facts.policy, facts=facts, now=now)

    def facts_for(self, catalog: CatalogName, name: TableName, kind: JobKind) -> TableFacts:
        """What is known of a table that takes jobs of this kind; Invalid for one that does not."""
        with self.database.reading() as uow:
            relation = planned_relation(uow, catalog, name)
            facts = facts_of(uow, relation)
            _check_takes(relation, facts, kind)
        return facts

    def run_now(self, catalog: CatalogName, name: TableName, kind: JobKind, params: dict[str, Any]) -> Job:
        """Plan a job because somebody has asked for it; Conflict while the table has an active one."""
        with self.database.writing() as uow:
            relation = planned_relation(uow, catalog, name)
            facts = facts_of(uow, relation)
            _check_takes(relation, facts, kind)
            check_not_blocked(uow, relation.id, kind)
            gain = predicted(kind, facts, past_of(uow, relation.id))
            due = Due(kind=kind, why="asked for", state=ASKED_FOR, params=params, predicted=gain)
            job = planned_job(relation, due, group=facts.policy["firn.optimize.group"], now=uow.now())
            if not uow.jobs.add(job):
                active = uow.jobs.active_of(relation.id)
                shown = f"a {active.kind} job is {active.status}" if active else "a job is active"
                raise Conflict(f"{shown} on {name}", hint="wait for it to end, or cancel it")
        return job


def _check_takes(relation: Relation, facts: TableFacts, kind: JobKind) -> None:
    """Invalid for a kind of job that is nothing for this table."""
    if kind is JobKind.SYNC:
        raise Invalid(
            f"a sync of {relation.name} begins with a look at Hive", hint=f"run `firn hive sync {relation.name}`"
        )
    is_keyed = relation.kind is RelationKind.KEYED
    allowed = _FOR_KEYED if is_keyed else _FOR_PLAIN
    if kind not in allowed:
        shown = "keyed" if is_keyed else "plain"
        raise Invalid(f"{relation.name} is a {shown} table: it takes {', '.join(sorted(allowed))}, not {kind}")
    if kind is JobKind.REWRITE and facts.hive_linked and not is_keyed:
        raise Invalid(
            f"{relation.name} keeps the files that Hive lists: packed, a sync could not tell what became of them"
        )


def planned_relation(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The relation that jobs of this name work on: for a store, its keyed table."""
    uow.catalogs.get(catalog)
    relation = uow.relations.find(catalog, name)
    if relation is not None and relation.kind is RelationKind.KEYED:
        return relation
    relation = existing_table(uow, catalog, name)
    return relation if relation.owner_id is None else uow.relations.get(relation.owner_id)


def planned_job(relation: Relation, due: Due, *, group: str, now: datetime) -> Job:
    """A pending job."""
    return Job(
        id=JobId(uuid4()),
        catalog=relation.catalog,
        relation_id=relation.id,
        table=relation.name,
        kind=due.kind,
        status=JobStatus.PENDING,
        group=group,
        reason=due.why,
        created_at=now,
        params={"state": due.state, **due.params},
        predicted={} if due.predicted is None else due.predicted.as_json(),
    )


def past_of(uow: UnitOfWork, relation_id: RelationId) -> Sequence[Job]:
    """What decisions look back on."""
    return uow.jobs.last_of_each_kind(relation_id, limit=REMEMBERED_JOBS)


def facts_of(uow: UnitOfWork, relation: Relation) -> TableFacts:
    """What planning knows of one table."""
    return _facts(uow, [relation])[relation.id]


def _facts(uow: UnitOfWork, relations: Sequence[Relation]) -> dict[RelationId, TableFacts]:
    keyed = uow.keyed.get_many([one.id for one in relations if one.kind is RelationKind.KEYED])
    ids = [one.id for one in relations if one.kind is not RelationKind.KEYED]
    ids += [store for one in keyed.values() for store in (one.base_id, one.change_id)]
    stats = uow.stats.get_many(ids)
    blockers = uow.blockers.of([one.id for one in relations], uow.now())
    return {one.id: _one(uow, one, keyed.get(one.id), stats, tuple(blockers.get(one.id, ()))) for one in relations}


def _one(
    uow: UnitOfWork,
    relation: Relation,
    keyed: KeyedTable | None,
    stats: Mapping[RelationId, TableStats],
    blockers: tuple[Blocker, ...],
) -> TableFacts:
    own = relation.id if keyed is None else keyed.base_id
    counted = stats.get(own, TableStats(relation_id=own))
    return TableFacts(
        policy=policy_of(uow, relation, counted.properties),
        stats=counted,
        keyed=keyed,
        change=None if keyed is None else stats.get(keyed.change_id, TableStats(relation_id=keyed.change_id)),
        hive_linked=relation.hive_name is not None,
        created_at=relation.created_at,
        blockers=blockers,
    )


def _due(uow: UnitOfWork, relations: Sequence[Relation]) -> list[tuple[Relation, Due]]:
    """Jobs are looked up only for tables that need one: an idle table costs nothing more."""
    now = uow.now()
    found: list[tuple[Relation, Due]] = []
    facts = _facts(uow, relations)
    for relation in relations:
        if isinstance(decided(facts[relation.id], (), now), NotDue):
            continue
        decision = decided(facts[relation.id], past_of(uow, relation.id), now)
        if isinstance(decision, Due):
            found.append((relation, decision))
    return found
