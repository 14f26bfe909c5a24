"""What is known of a table, what comes next for it, and the jobs that people ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.errors import Conflict, Invalid
from catalog.jobs.blocker import Blocker
from catalog.jobs.job import REMEMBERED_JOBS, REQUESTED, Job, JobKind, JobStatus
from catalog.jobs.prediction import QUANTITIES
from catalog.keyed.spec import KeyedTable
from catalog.maintenance import KINDS, decide_next_job, kind_of, predict_job
from catalog.names import CatalogName, RelationId, TableName
from catalog.planning import Due, NotDue, TableFacts
from catalog.policy.policy import Policy
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.ownership import explain_outside_warehouse, explain_unowned_location
from catalog.tables.relation import Relation, RelationKind, TableStats
from server.service.commit.commit_target import get_table
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import enqueue, make_job
from server.service.planning.policies import load_policies

PLANNED_KINDS = (RelationKind.TABLE, RelationKind.KEYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What will be done next to a table, and by which policy."""

    decision: Due | NotDue
    policy: Policy
    facts: TableFacts
    now: datetime


@dataclass(frozen=True)
class Planner:
    """Says what comes next for a table, and plans the jobs that people request. See `planner_loop` for the rest."""

    database: Database

    def outlook(self, catalog: CatalogName, name: TableName) -> Outlook:
        """What comes next for a table and why."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            past, now = load_past_jobs(uow, relation.id), uow.now()
            return Outlook(decision=decide_next_job(facts, past, now), policy=facts.policy, facts=facts, now=now)

    def facts_for(self, catalog: CatalogName, name: TableName, kind: JobKind) -> TableFacts:
        """What is known of a table that takes jobs of this kind; Invalid for one that does not."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_takes(relation, facts, kind)
        return facts

    def run_now(
        self,
        catalog: CatalogName,
        name: TableName,
        kind: JobKind,
        params: dict[str, Any],
        *,
        nothing_to_do: bool = False,
    ) -> Job:
        """Plan a job because somebody has asked for it; Conflict while another one does not give way.

        With `nothing_to_do`, as its dry run says, it has succeeded at once: no optimizer has to start for it.
        """
        with self.database.writing() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_takes(relation, facts, kind)
            if nothing_to_do and uow.jobs.active_of(relation.id) is None:
                return _ended_at_once(uow, relation, facts, kind, params)
            return create_requested_job(uow, relation, facts, kind, params, "asked for")


def create_requested_job(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, kind: JobKind, params: dict[str, Any], reason: str
) -> Job:
    """A job that somebody wants now: what is planned and only waits gives way; Conflict while a job is active."""
    check_not_blocked(uow, relation.id, kind)
    gain, now = predict_job(kind, facts, load_past_jobs(uow, relation.id), params), uow.now()
    due = Due(kind=kind, reason=reason, state=REQUESTED, params=params, predicted=gain)
    job = make_job(relation, due, facts, now, asked=True)
    if not enqueue(uow, job, now):
        active = uow.jobs.active_of(relation.id)
        if active is None:
            raise Conflict(f"{relation.name} is being dropped or renamed", hint="try again")
        raise Conflict(
            f"a {active.kind} job is {active.status} on {relation.name}", hint="wait for it to end, or cancel it"
        )
    return job


def _ended_at_once(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, kind: JobKind, params: dict[str, Any]
) -> Job:
    """A job that has nothing to do, kept as any other."""
    check_not_blocked(uow, relation.id, kind)
    now = uow.now()
    due = Due(kind=kind, reason="asked for", state=REQUESTED, params=params)
    now_lies = predict_job(kind, facts, ()).as_json()
    same = {
        f"{quantity}_{when}": now_lies[f"{quantity}_before"] for quantity in QUANTITIES for when in ("before", "after")
    }
    job = replace(
        make_job(relation, due, facts, now, asked=True),
        status=JobStatus.SUCCEEDED,
        ended_at=now,
        result={**(kind_of(kind).result_if_nothing or {}), "gained": same},
    )
    uow.jobs.add(job)
    return job


def check_takes(relation: Relation, facts: TableFacts, kind: JobKind) -> None:
    """Invalid for a kind of job that is nothing for this table."""
    job = kind_of(kind)
    if job.can_request and relation.kind not in job.tables:
        allowed = sorted(
            candidate.name for candidate in KINDS if candidate.can_request and relation.kind in candidate.tables
        )
        shown = "keyed" if relation.kind is RelationKind.KEYED else "plain"
        raise Invalid(f"{relation.name} is a {shown} table: it takes {', '.join(allowed)}, not {kind}")
    job.check_takes(relation, facts)


def find_planned_relation(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The relation that jobs of this name work on: for a store, its keyed table."""
    uow.catalogs.get(catalog)
    relation = uow.relations.find(catalog, name)
    if relation is not None and relation.kind is RelationKind.KEYED:
        return relation
    relation = get_table(uow, catalog, name)
    return relation if relation.owner_id is None else uow.relations.get(relation.owner_id)


def load_past_jobs(uow: UnitOfWork, relation_id: RelationId) -> Sequence[Job]:
    """What decisions look back on."""
    return uow.jobs.last_of_each_kind(relation_id, limit=REMEMBERED_JOBS)


def load_facts(uow: UnitOfWork, relation: Relation) -> TableFacts:
    """What planning knows of one table."""
    return load_many_facts(uow, [relation])[relation.id]


def load_many_facts(uow: UnitOfWork, relations: Sequence[Relation]) -> dict[RelationId, TableFacts]:
    """The same of many tables, in a handful of queries."""
    keyed = uow.keyed.get_many([relation.id for relation in relations if relation.kind is RelationKind.KEYED])
    ids = [relation.id for relation in relations if relation.kind is not RelationKind.KEYED]
    ids += [store for table in keyed.values() for store in (table.base_id, table.change_id)]
    stats, layouts = uow.stats.get_many(ids), uow.layouts.get_many(ids)
    blockers = uow.blockers.of([relation.id for relation in relations], uow.now())
    owns = {
        relation.id: relation.id if relation.id not in keyed else keyed[relation.id].base_id for relation in relations
    }
    own = {
        relation.id: stats.get(owns[relation.id], TableStats(relation_id=owns[relation.id])) for relation in relations
    }
    policies = load_policies(uow, [(relation, own[relation.id].properties) for relation in relations])
    warehouses = {name: uow.catalogs.get(name).warehouse for name in {relation.catalog for relation in relations}}
    found = {
        relation.id: _one(
            relation, policy, own[relation.id], keyed.get(relation.id), stats, tuple(blockers.get(relation.id, ()))
        )
        for relation, policy in zip(relations, policies, strict=True)
    }
    return {
        relation.id: replace(
            found[relation.id],
            keeps_orphans=_keeps_orphans(relation, own[relation.id], warehouses[relation.catalog]),
            layout=layouts.get(owns[relation.id]),
            change_layout=None if relation.id not in keyed else layouts.get(keyed[relation.id].change_id),
        )
        for relation in relations
    }


def _keeps_orphans(relation: Relation, stats: TableStats, warehouse: str) -> str | None:
    """A keyed table's stores are Firn's own; of others it is known before any place is looked at."""
    if relation.kind is RelationKind.KEYED:
        return None
    return explain_outside_warehouse(relation.location, warehouse) or explain_unowned_location(
        relation, stats.properties
    )


def _one(
    relation: Relation,
    policy: Policy,
    own: TableStats,
    keyed: KeyedTable | None,
    stats: Mapping[RelationId, TableStats],
    blockers: tuple[Blocker, ...],
) -> TableFacts:
    return TableFacts(
        policy=policy,
        stats=own,
        keyed=keyed,
        change=None if keyed is None else stats.get(keyed.change_id, TableStats(relation_id=keyed.change_id)),
        hive_linked=relation.hive_name is not None,
        created_at=relation.created_at,
        blockers=blockers,
    )
