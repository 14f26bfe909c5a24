"""What a lease brings with it: the task of its job, from facts of one moment, read when the lease is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.jobs.job import REQUESTED, Job, JobKind
from catalog.keyed.spec import BASE, CHANGE
from catalog.maintenance import kind_of
from catalog.maintenance.context import JobContext
from catalog.names import CatalogName, TableName
from catalog.planning import Due, TableFacts
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.base import Task
from server.service.commit.commit_target import load_metadata
from server.service.jobs.job_queue import make_job
from server.service.planning.planner import check_accepts_kind, find_planned_relation, load_facts
from server.service.tables.metadata_files import MetadataFiles


class Leased(NamedTuple):
    """What a job is given with its lease, and the state of the table that it was made from."""

    task: Task
    context: JobContext


MoreFacts = Callable[[UnitOfWork, Job, Relation], Task | Json]


@dataclass(frozen=True, slots=True)
class UnqueuedTask:
    """What a job would be given if it were asked for now."""

    context: JobContext
    task: Task


@dataclass(frozen=True)
class Tasks:
    """Builds the task of every job kind."""

    database: Database
    metadata: MetadataFiles
    more: Mapping[JobKind, MoreFacts] = field(default_factory=dict)
    """What other parts of the server tell of their own kinds: the task, or the facts that were staged for it."""
    looks: Mapping[JobKind, Callable[[JobContext], Task]] = field(default_factory=dict)
    """Tasks of kinds for which somebody has to be asked who is no database: no transaction is open meanwhile."""

    def build(self, job: Job) -> Task:
        """The facts for a job; NoSuchTable when its table is gone."""
        return self.build_for_lease(job).task

    def build_for_lease(self, job: Job) -> Leased:
        """The same, with what they were made from."""
        with self.database.reading() as uow:
            relation = uow.relations.get(job.relation_id)
            context = self._context(uow, job, relation)
            told = self.more[job.kind](uow, job, relation) if job.kind in self.more else {}
        if isinstance(told, Task):
            return Leased(told, context)
        if job.kind in self.looks:
            return Leased(self.looks[job.kind](context), context)
        finish = kind_of(job.kind).finish_task
        return Leased(_build(context) if finish is None else finish(context, told), context)

    def build_unqueued_task(
        self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]
    ) -> UnqueuedTask:
        """The facts that a job would be given now; Invalid for a kind that the table does not take."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            check_accepts_kind(relation, facts, kind)
            due = Due(kind=kind, reason="asked for", state=REQUESTED, params=params)
            context = self._context(uow, make_job(relation, due, facts, uow.now(), asked=True), relation)
        return UnqueuedTask(context, _build(context))

    def _context(self, uow: UnitOfWork, job: Job, relation: Relation) -> JobContext:
        facts = load_facts(uow, relation)
        stores = {"": relation}
        needed: dict[str, frozenset[int]] = {"": frozenset()}
        if facts.keyed is not None:
            stores = {BASE: uow.relations.get(facts.keyed.base_id), CHANGE: uow.relations.get(facts.keyed.change_id)}
            current = uow.keyed.versions(relation.id, limit=1)
            needed = {
                BASE: frozenset(v.base_snapshot_id for v in current if v.base_snapshot_id is not None),
                CHANGE: frozenset(v.change_snapshot_id for v in current if v.change_snapshot_id is not None),
            }
        return JobContext(
            job=job,
            relation=relation,
            policy=facts.policy,
            now=uow.now(),
            keyed=facts.keyed,
            metadata={store: load_metadata(self.metadata, one) for store, one in stores.items()},
            needed=needed,
            deletes_through=_deletes_through(uow, facts),
        )


def _build(context: JobContext) -> Task:
    """The task of a kind that needs no more than the context; Invalid for another, which is not requested by kind."""
    build = kind_of(context.job.kind).build_task
    if build is None:
        raise Invalid(f"the task of a {context.job.kind} job is not known before the job is queued")
    return build(context)


def _deletes_through(uow: UnitOfWork, facts: TableFacts) -> int:
    """Only where late changes may come do merged deletes stay at all."""
    if facts.keyed is None or facts.keyed.spec.sequence_field is None:
        return 0
    return uow.events.newest_before(facts.keyed.change_id, uow.now() - facts.policy["firn.tombstone.max-age"])
