"""Loads the facts for planning, decides the next job of a table, and creates the jobs that users request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.errors import Conflict, Invalid
from catalog.files.file_layout import FileLayout
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
from server.service.jobs.admission import check_not_blocked, find_blocked_id
from server.service.jobs.job_queue import enqueue, make_job
from server.service.planning.policies import find_policy_store, list_keyed_ids, load_policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The decision about a table's next job, with the policy and facts behind it."""

    decision: Due | NotDue
    policy: Policy
    facts: TableFacts
    now: datetime


@dataclass(frozen=True)
class Planner:
    """Decides the next job of a table, and creates requested jobs. The `planner_loop` plans all other jobs."""

    database: Database

    def outlook(self, catalog: CatalogName, name: TableName) -> Outlook:
        """The next job of a table and the reason; raises NoSuchTable."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            past, now = load_past_jobs(uow, relation.id), uow.now()
            return Outlook(decision=decide_next_job(facts, past, now), policy=facts.policy, facts=facts, now=now)

    def facts_for(self, catalog: CatalogName, name: TableName, kind: JobKind) -> TableFacts:
        """The facts of a table; raises Invalid when the table does not accept jobs of this kind."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_accepts_kind(relation, facts, kind)
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
        """Create a requested job; raises Conflict while another job of the table is active and cannot be replaced.

        With `nothing_to_do` (the dry run's result) the job succeeds at once, so that no optimizer has to start.
        """
        with self.database.writing() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_accepts_kind(relation, facts, kind)
            if nothing_to_do and uow.jobs.active_of(relation.id) is None:
                return _record_empty_job(uow, relation, facts, kind, params)
            return create_requested_job(uow, relation, facts, kind, params, "requested")


def create_requested_job(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, kind: JobKind, params: dict[str, Any], reason: str
) -> Job:
    """Create a job that a user requests; it replaces a planned job that still waits.

    Raises Conflict while a job of the table runs, or while another requested job waits.
    """
    check_not_blocked(uow, find_blocked_id(relation), kind)
    prediction, now = predict_job(kind, facts, load_past_jobs(uow, relation.id), params), uow.now()
    due = Due(kind=kind, reason=reason, state=REQUESTED, params=params, predicted=prediction)
    job = make_job(relation, due, facts, now, requested=True)
    if not enqueue(uow, job, now):
        active = uow.jobs.active_of(relation.id)
        if active is None:
            raise Conflict(f"{relation.name} is being dropped or renamed", hint="try again")
        raise Conflict(
            f"a {active.kind} job is {active.status} on {relation.name}", hint="wait for it to end, or cancel it"
        )
    return job


def _record_empty_job(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, kind: JobKind, params: dict[str, Any]
) -> Job:
    """Record a job without work as succeeded; it appears in the job history as any other."""
    check_not_blocked(uow, find_blocked_id(relation), kind)
    now = uow.now()
    due = Due(kind=kind, reason="requested", state=REQUESTED, params=params)
    prediction = predict_job(kind, facts, ()).as_json()
    unchanged = {
        f"{quantity}_{when}": prediction[f"{quantity}_before"]
        for quantity in QUANTITIES
        for when in ("before", "after")
    }
    job = replace(
        make_job(relation, due, facts, now, requested=True),
        status=JobStatus.SUCCEEDED,
        ended_at=now,
        result={**(kind_of(kind).result_if_nothing or {}), "gained": unchanged},
    )
    uow.jobs.add(job)
    return job


def check_accepts_kind(relation: Relation, facts: TableFacts, kind: JobKind) -> None:
    """Raise Invalid when jobs of this kind cannot run on the table."""
    job = kind_of(kind)
    if job.can_request and relation.kind not in job.tables:
        allowed = sorted(
            candidate.name for candidate in KINDS if candidate.can_request and relation.kind in candidate.tables
        )
        raise Invalid(f"{relation.name} is {_SHOWN[relation.kind]}: it takes {', '.join(allowed)}, not {kind}")
    job.check_takes(relation, facts)


_SHOWN = {
    RelationKind.TABLE: "a plain table",
    RelationKind.KEYED: "a keyed table",
    RelationKind.QUARANTINE: "a quarantine",
}


def find_planned_relation(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The relation that jobs of this name work on, or NoSuchTable.

    It is the keyed table of a base or change store, else the table or quarantine of this name.
    """
    uow.catalogs.get(catalog)
    relation = uow.relations.find(catalog, name)
    if relation is not None and relation.kind is RelationKind.KEYED:
        return relation
    relation = get_table(uow, catalog, name)
    if relation.owner_id is None or relation.kind.is_planned:
        return relation
    return uow.relations.get(relation.owner_id)


def load_past_jobs(uow: UnitOfWork, relation_id: RelationId) -> Sequence[Job]:
    """The newest jobs of each kind, which planning decisions consider."""
    return uow.jobs.last_of_each_kind(relation_id, limit=REMEMBERED_JOBS)


def load_facts(uow: UnitOfWork, relation: Relation) -> TableFacts:
    """The planning facts of one table."""
    return load_many_facts(uow, [relation])[relation.id]


def load_many_facts(uow: UnitOfWork, relations: Sequence[Relation]) -> dict[RelationId, TableFacts]:
    """The planning facts of many tables by relation id, in a fixed number of queries per catalog."""
    keyed = uow.keyed.get_many(list_keyed_ids(relations))
    store_ids = [store_id for table in keyed.values() for store_id in (table.base_id, table.change_id)]
    own_ids = [relation.id for relation in relations if relation.id not in keyed]
    stores = _Stores(uow.stats.get_many([*own_ids, *store_ids]), uow.layouts.get_many([*own_ids, *store_ids]))
    blockers = uow.blockers.of([find_blocked_id(relation) for relation in relations], uow.now())
    waiting = uow.held_runs.list_waiting(own_ids)
    properties = [stores.get_stats(find_policy_store(relation, keyed)).properties for relation in relations]
    policies = load_policies(uow, list(zip(relations, properties, strict=True)))
    warehouses = {name: uow.catalogs.get(name).warehouse for name in {relation.catalog for relation in relations}}
    return {
        relation.id: replace(
            _build_facts(relation, policy, keyed.get(relation.id), stores),
            blockers=tuple(blockers.get(find_blocked_id(relation), ())),
            keeps_orphans=_explain_keeps_orphans(relation, stores, warehouses[relation.catalog]),
            has_held_run=relation.id in waiting,
        )
        for relation, policy in zip(relations, policies, strict=True)
    }


@dataclass(frozen=True, slots=True)
class _Stores:
    """Statistics and file layouts of plain tables and of the stores of keyed tables."""

    stats: Mapping[RelationId, TableStats]
    layouts: Mapping[RelationId, FileLayout]

    def get_stats(self, relation_id: RelationId) -> TableStats:
        return self.stats.get(relation_id, TableStats(relation_id=relation_id))


def _build_facts(relation: Relation, policy: Policy, keyed: KeyedTable | None, stores: _Stores) -> TableFacts:
    base_id = relation.id if keyed is None else keyed.base_id
    return TableFacts(
        policy=policy,
        stats=stores.get_stats(base_id),
        keyed=keyed,
        change=None if keyed is None else stores.get_stats(keyed.change_id),
        hive_linked=relation.hive_name is not None,
        created_at=relation.created_at,
        layout=stores.layouts.get(base_id),
        change_layout=None if keyed is None else stores.layouts.get(keyed.change_id),
    )


def _explain_keeps_orphans(relation: Relation, stores: _Stores, warehouse: str) -> str | None:
    """Why orphan removal does not run on a table; None for a keyed table, because Firn alone writes its stores."""
    if relation.kind is RelationKind.KEYED:
        return None
    return explain_outside_warehouse(relation.location, warehouse) or explain_unowned_location(
        relation, stores.get_stats(relation.id).properties
    )
