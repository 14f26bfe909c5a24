"""Builds the tasks that leases carry, from the state of the table at the time of the lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from catalog.errors import Invalid
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id
from catalog.jobs.job import REQUESTED, Job, JobKind
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.maintenance import kind_of
from catalog.maintenance.context import JobContext
from catalog.names import CatalogName, TableName
from catalog.planning import Due, TableFacts
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.base import Task
from server.service.commit.commit_target import list_pinned_snapshots, list_protected_snapshots, load_metadata
from server.service.jobs.job_queue import make_job
from server.service.planning.planner import check_accepts_kind, find_planned_relation, load_facts
from server.service.tables.metadata_files import MetadataFiles


class Leased(NamedTuple):
    """The task of a leased job, and the context that it was built from."""

    task: Task
    context: JobContext


MoreFacts = Callable[[UnitOfWork, Job, Relation], Task | Json]


@dataclass(frozen=True, slots=True)
class UnqueuedTask:
    """The task of a job that is not queued, for a dry run."""

    context: JobContext
    task: Task


@dataclass(frozen=True)
class Tasks:
    """Builds the task of every job kind."""

    database: Database
    metadata: MetadataFiles
    more: Mapping[JobKind, MoreFacts] = field(default_factory=dict)
    """Facts or whole tasks that other services provide for their kinds of job."""
    looks: Mapping[JobKind, Callable[[JobContext], Task]] = field(default_factory=dict)
    """Builders for kinds that ask another system than the database; they run outside of a transaction."""

    def build(self, job: Job) -> Task:
        """The task of a job; raises NoSuchTable when its table is gone."""
        return self.build_for_lease(job).task

    def build_for_lease(self, job: Job) -> Leased:
        """The task of a job together with its context; raises NoSuchTable when its table is gone."""
        with self.database.reading() as uow:
            relation = uow.relations.get(job.relation_id)
            context = self._load_context(uow, job, relation)
            facts = self.more[job.kind](uow, job, relation) if job.kind in self.more else {}
        if isinstance(facts, Task):
            return Leased(facts, context)
        if job.kind in self.looks:
            return Leased(self.looks[job.kind](context), context)
        finish = kind_of(job.kind).finish_task
        return Leased(_build(context) if finish is None else finish(context, facts), context)

    def build_unqueued_task(
        self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]
    ) -> UnqueuedTask:
        """The task that a job would have now; raises Invalid for a kind that the table does not accept."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_accepts_kind(relation, facts, kind)
            due = Due(kind=kind, reason="requested", state=REQUESTED, params=params)
            context = self._load_context(uow, make_job(relation, due, facts, uow.now(), requested=True), relation)
        return UnqueuedTask(context, _build(context))

    def _load_context(self, uow: UnitOfWork, job: Job, relation: Relation) -> JobContext:
        facts = load_facts(uow, relation)
        stores = {"": relation}
        if facts.keyed is not None:
            stores = {BASE: uow.relations.get(facts.keyed.base_id), CHANGE: uow.relations.get(facts.keyed.change_id)}
        metadata = {name: load_metadata(self.metadata, store) for name, store in stores.items()}
        return JobContext(
            job=job,
            relation=relation,
            policy=facts.policy,
            now=uow.now(),
            keyed=facts.keyed,
            metadata=metadata,
            needed=_list_needed(uow, relation, facts.keyed, metadata),
            deletes_through=_find_deletes_through(uow, facts),
        )


def _list_needed(
    uow: UnitOfWork, relation: Relation, keyed: KeyedTable | None, metadata: Mapping[str, Json]
) -> dict[str, frozenset[int]]:
    """By store, the snapshots that readable versions, consumers and pipelines name."""
    if keyed is not None:
        return {store: list_protected_snapshots(uow, keyed, is_base=store == BASE) for store in (BASE, CHANGE)}
    table = metadata[""]
    # A run is incremental only if its old snapshot is in the history of the new one.
    return {"": Lineage.of(table).with_following(list_pinned_snapshots(uow, relation), current_snapshot_id(table))}


def _build(context: JobContext) -> Task:
    """Build the task of a kind that needs only the context; raises Invalid for other kinds."""
    build = kind_of(context.job.kind).build_task
    if build is None:
        raise Invalid(f"a {context.job.kind} job has no task before it is queued")
    return build(context)


def _find_deletes_through(uow: UnitOfWork, facts: TableFacts) -> int:
    """The sequence number up to which tombstones may go; only tables with late changes keep tombstones."""
    if facts.keyed is None or facts.keyed.spec.sequence_field is None:
        return 0
    return uow.events.newest_before(facts.keyed.change_id, uow.now() - facts.policy["firn.tombstone.max-age"])
