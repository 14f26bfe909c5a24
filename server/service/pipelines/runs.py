"""Runs of pipelines: users request, list and reset them, and optimizers get their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from catalog.commits.commit_rules import list_added_snapshots
from catalog.commits.writers import name_writer_with_progress
from catalog.errors import CatalogError, CommitRefused, Conflict, NotFound
from catalog.history.commit import TableCommit
from catalog.jobs.job import CODE, REQUESTED, Job, JobId, JobKind, JobStatus
from catalog.jobs.leases import Lease, check_lease
from catalog.jobs.scheduling import compute_deadline
from catalog.keyed.spec import BASE, CHANGE
from catalog.maintenance import kind_of
from catalog.names import CatalogName, RelationId, TableName, fold_case
from catalog.pipelines.beside import BACKFILL, SECONDS, TABLE
from catalog.pipelines.pipeline import Pipeline, PipelineTable, name_writer
from catalog.pipelines.versions import parse_inputs
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.work import JobFilter
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.pipeline_outputs import AuditMode
from firn.protocol.tasks.pipeline import PipelineTask, TargetTask
from server.service.pipelines.bounded_inputs import TO
from server.service.pipelines.code import check_code, list_modules
from server.service.pipelines.predictions import predict_run
from server.service.pipelines.repeated_requests import WantedRun, find_repeated
from server.service.pipelines.rights import check_owner
from server.service.pipelines.sets import find_subjects, list_members
from server.service.pipelines.targets import (
    check_not_held,
    check_target,
    fence_writer,
    find_checkpoint,
    find_target,
    forget_held,
    load_target_policy,
)

_AS_IT_COMES = WantedRun()


@dataclass(frozen=True)
class PipelineRuns:
    """Jobs whose subjects are tables of pipelines."""

    database: Database
    checks_rights: bool
    """Whether access control is on."""
    allows_code: bool = True
    """Whether optimizers get Python of pipelines."""

    def request(self, name: str, table: TableName, requester: str | None, wanted: WantedRun = _AS_IT_COMES) -> Job:
        """Request a run of a table and its set; NotFound, and Conflict while a run of one of them is active.

        Conflict with `to`, if the run would compute all rows. A repeated request gets the run of the first one.
        """
        with self.database.writing() as uow:
            pipeline = uow.pipelines.get(name)
            entry = lock_subject(uow, get_table(uow, pipeline, table))
            params = wanted.build_params(requester)
            repeated = find_repeated(uow, pipeline, entry, params)
            if repeated is not None:
                return repeated
            if wanted.to is not None:
                _check_goes_on(uow, pipeline, entry, full=wanted.full)
            return add_run(uow, pipeline, entry, "requested", params)

    def retry(self, uow: UnitOfWork, old: Job) -> Job:
        """Request a run like an ended one, in the caller's transaction. Conflict for a job of a backfill."""
        if is_beside(old):
            raise Conflict(f"job {old.id} computed chunks of a backfill", hint="the backfill starts its jobs by itself")
        pipeline, table = read_run(uow, old)
        params = {"full": bool(old.params.get("full")), "requested_by": old.params.get("requested_by")}
        params |= {TO: old.params[TO]} if TO in old.params else {}
        return add_run(uow, pipeline, lock_subject(uow, table), f"retry of {old.id}", params)

    def list(self, name: str, table: TableName | None, *, limit: int, cursor: str | None) -> Page[Job]:
        """List the runs of a pipeline, or of one of its tables, newest first."""
        with self.database.reading() as uow:
            pipeline = uow.pipelines.get(name)
            tables = uow.pipelines.tables_of([pipeline.id])[pipeline.id]
            subjects = {entry.id for entry in tables}
            if table is not None:
                entry = get_table(uow, pipeline, table)
                subjects = {entry.id, find_subjects(tables)[entry.id]}
            return uow.jobs.list(JobFilter(subject_ids=list(subjects)), limit=limit, cursor=cursor)

    def get(self, name: str, job_id: JobId) -> Job:
        """Get a run; NotFound, also for a job that is no run of this pipeline."""
        with self.database.reading() as uow:
            pipeline, job = uow.pipelines.get(name), uow.jobs.get(job_id)
            table = find_run_table(uow, job)
        if job.kind is not JobKind.PIPELINE or table is None or table.pipeline_id != pipeline.id:
            raise NotFound(f"pipeline {name} has no run {job_id}")
        return job

    def reset(self, name: str, table: TableName) -> None:
        """Forget up to where a table is built: runs compute all rows until one has committed.

        docs/protocols.md, rule 8.8. A run that works now commits nothing more; its next attempt computes all rows.
        """
        with self.database.writing() as uow:
            pipeline = uow.pipelines.get(name)
            entry = uow.pipelines.lock_table(get_table(uow, pipeline, table).id)
            fence_writer(uow, name, entry, resets=True)
            forget_held(uow, entry)
            uow.pipelines.request_plans([pipeline.id], uow.now())

    def fence(self, uow: UnitOfWork, job: Job) -> None:
        """Keep copies of a cancelled run from committing, in the caller's transaction (docs/protocols.md, rule 8.7).

        A job that computes chunks beside the runs has its lease as fence.
        """
        if is_beside(job):
            return
        with suppress(NotFound):  # the pipeline was dropped, which has fenced them
            pipeline, tables = read_run_tables(uow, job)
            for table in tables:
                fence_writer(uow, pipeline.name, table)

    def build_task(self, job: Job) -> PipelineTask:
        """The task of a leased run; Conflict if a target has rows of others, or the owner lacks a right."""
        with self.database.reading() as uow:
            pipeline, tables = read_run_tables(uow, job)
            for table in tables:
                target = find_target(uow, pipeline.name, table.catalog, table.name)
                check_target(target, table.definition)
                if self.checks_rights:
                    check_owner(uow, pipeline, table, is_built=target is not None)
                check_code(pipeline, table, allowed=self.allows_code)
            version = uow.pipelines.get_version(pipeline.id, pipeline.version)
            held = uow.held_runs.find([table.id for table in tables]).values()
        return PipelineTask(
            pipeline=pipeline.name,
            version=pipeline.version,
            targets=[_build_target_task(table) for table in tables],
            deterministic=[*version.deterministic],
            full=bool(job.params.get("full")),
            holds=waits_for_approval(tables),
            is_held=any(part.job_id == job.id for part in held),
            modules=list_modules(version.files, [table.definition for table in tables]),
            beside=job.params.get(BACKFILL),
            beside_seconds=int(job.params.get(SECONDS, 0)),
        )

    def covers(self, text: str, catalog: CatalogName, name: TableName) -> bool | None:
        """Whether a text is the current lease of a run that writes this table, or the keyed table of this store.

        None for a text that is the lease of no run.
        """
        with suppress(CatalogError), self.database.reading() as uow:
            lease = Lease.parse(text)
            job = uow.jobs.get(lease.job_id)
            if job.kind is not JobKind.PIPELINE:
                return None
            with suppress(CatalogError):
                _, tables = read_run_tables(uow, check_lease(job, lease))
                return tables[0].catalog == catalog and any(name in _list_written(table) for table in tables)
            return False
        return None

    def release(self, lease: Lease | None, changes: Sequence[TableCommit]) -> Lease | None:
        """The lease that a commit needs: none for a run, whose writer's epoch is its fence (decision 142).

        Raises CommitRefused for rows of a run that do not name its writer, because nothing would keep them from coming
        twice; for rows of a run of several tables, which commits all of them together (rule 8.15); and of a run that
        waits for approval (rule 8.17).
        """
        if lease is None:
            return None
        with self.database.reading() as uow:
            try:
                job = uow.jobs.get(lease.job_id)
            except NotFound:  # the commit itself refuses the lease, unless the commit was applied before
                return lease
            if job.kind is not JobKind.PIPELINE:
                return lease
            reason = _explain_not_alone(uow, job)
            if is_beside(job):
                reason = f"a job of a backfill commits the chunks of {job.table} one by one, with its own request"
        writer = name_writer(str(job.params.get("pipeline")), job.table)
        for change in changes:
            if not list_added_snapshots(change.updates):
                continue
            if name_writer_with_progress(change.updates) != writer:
                raise CommitRefused(f"a run of {job.table} commits rows as the writer {writer!r} alone")
            if reason is not None:
                raise CommitRefused(reason)
        return None


def _check_goes_on(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, *, full: bool) -> None:
    """Raise Conflict if a run of the table, or of its set, computes all rows: inputs are read as they are now then."""
    tables = uow.pipelines.tables_of([pipeline.id])[pipeline.id]
    for member in list_members(tables, table):
        checkpoint = find_checkpoint(uow, pipeline, member)
        if full or checkpoint is None or checkpoint.fingerprint != member.definition.fingerprint:
            raise Conflict(
                f"a run of {member.name} would compute all rows, of its inputs as they are now",
                hint="a time bounds runs that compute what changed: run the table without it first",
            )


def list_run_relations(uow: UnitOfWork, job: Job) -> list[Relation]:
    """The tables that a run reads and writes, as far as they exist; NotFound for a table that has gone."""
    _, tables = read_run_tables(uow, job)
    inputs = (name for table in tables for name in parse_inputs(table.definition))
    quarantines = (TableName.parse(name) for table in tables if (name := table.definition.quarantine) is not None)
    names = dict.fromkeys((*(table.name for table in tables), *inputs, *quarantines))
    relations = (uow.relations.find(job.catalog, name) for name in names)
    kinds = (RelationKind.TABLE, RelationKind.KEYED)
    return [relation for relation in relations if relation is not None and relation.kind in kinds]


def is_beside(job: Job) -> bool:
    """Whether a job computes chunks of a backfill beside the live runs of its table."""
    return job.kind is JobKind.PIPELINE and BACKFILL in job.params


def check_live(job: Job) -> Job:
    """The job, if it is a run; Conflict for one that computes chunks beside runs."""
    if is_beside(job):
        raise Conflict(f"job {job.id} computes chunks of a backfill, and is no run", hint="take a chunk instead")
    return job


def find_run_table(uow: UnitOfWork, job: Job) -> PipelineTable | None:
    """The table of a run, or of a job beside its runs, whose subject is another one."""
    return uow.pipelines.find_table(UUID(job.params[TABLE]) if is_beside(job) else job.subject_id)


def read_run(uow: UnitOfWork, job: Job) -> tuple[Pipeline, PipelineTable]:
    """The pipeline and the table of a run; NotFound if the pipeline no longer has the table."""
    table = find_run_table(uow, job)
    if job.kind is not JobKind.PIPELINE or table is None:
        raise NotFound(f"no pipeline has {job.table} any more")
    return uow.pipelines.get_by_id(table.pipeline_id), table


def read_run_tables(uow: UnitOfWork, job: Job) -> tuple[Pipeline, list[PipelineTable]]:
    """The pipeline, and all tables that a run computes and commits; NotFound as of `read_run`."""
    pipeline, table = read_run(uow, job)
    return pipeline, _list_together(uow, pipeline, table)


def _list_together(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> list[PipelineTable]:
    """The tables that a run of this one computes."""
    if not table.definition.consistent:
        return [table]
    return list_members(uow.pipelines.tables_of([pipeline.id])[pipeline.id], table)


def lock_subject(uow: UnitOfWork, table: PipelineTable) -> PipelineTable:
    """The table whose jobs run this one, locked."""
    tables = uow.pipelines.tables_of([table.pipeline_id])[table.pipeline_id]
    return uow.pipelines.lock_table(list_members(tables, table)[0].id)


def waits_for_approval(tables: Sequence[PipelineTable]) -> bool:
    """Whether the commits of runs of these tables wait until a user publishes them."""
    return any(table.definition.audit is AuditMode.HOLD for table in tables)


def _explain_not_alone(uow: UnitOfWork, job: Job) -> str | None:
    """Why a run may not commit rows of its table alone; None if it may. A table that has gone takes no commits."""
    with suppress(NotFound):
        _, tables = read_run_tables(uow, job)
        if len(tables) > 1:
            return f"{job.table} moves together with other tables, and only with them"
        if waits_for_approval(tables):
            return f"the commits of runs of {job.table} wait for approval"
    return None


def _list_names(table: TableName) -> tuple[TableName, ...]:
    """The name of a target, and those that its stores have if it is keyed."""
    return (table, *(TableName(table.as_namespace, store) for store in (BASE, CHANGE)))


def _list_written(table: PipelineTable) -> tuple[TableName, ...]:
    """The names under which a run may write: those of its target, and its quarantine."""
    quarantine = table.definition.quarantine
    return (*_list_names(table.name), *(() if quarantine is None else (TableName.parse(quarantine),)))


def _build_target_task(table: PipelineTable) -> TargetTask:
    name = table.name
    definition = table.definition.model_dump(mode="json", exclude={"lineage", "terms", "prunes"})
    return TargetTask(definition=definition, target=[*name.namespace, name.name])


def list_subjects(uow: UnitOfWork, job: Job) -> set[RelationId]:
    """The table of a job, or all tables of a run."""
    if job.kind is not JobKind.PIPELINE:
        return {job.relation_id}
    return {relation.id for relation in list_run_relations(uow, job)}


def is_input(database: Database, lease: Lease | None, name: TableName) -> bool:
    """Whether the lease is one of a run that only reads the table of this name."""
    if lease is None:
        return False
    with database.reading() as uow:
        job = uow.jobs.get(lease.job_id)
        if job.kind is not JobKind.PIPELINE:
            return False
        written = set(_list_names(job.table))
        with suppress(NotFound):
            written.update(name for table in read_run_tables(uow, job)[1] for name in _list_written(table))
    return name not in written


def get_table(uow: UnitOfWork, pipeline: Pipeline, name: TableName) -> PipelineTable:
    """A table of a pipeline in any spelling of its name; NotFound."""
    tables = uow.pipelines.tables_of([pipeline.id])[pipeline.id]
    folded = fold_case(str(name))
    entry = next((table for table in tables if fold_case(str(table.name)) == folded), None)
    if entry is None:
        raise NotFound(
            f"pipeline {pipeline.name} has no table {name}", hint=f"`firn pipeline show {pipeline.name}` lists them"
        )
    return entry


def add_run(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, reason: str, params: Mapping[str, Any]) -> Job:
    """Queue a run; Conflict while the table has an active one, or one that waits for approval."""
    check_not_held(uow, pipeline, [table])
    params = {**params, **predict_run(uow, table.id, full=bool(params.get("full")))}
    job = build_job(uow, pipeline, table, table.id, reason, params)
    if not uow.jobs.add(job):
        active = uow.jobs.active_of(table.id)
        run = "a run" if active is None else f"run {active.id}"
        raise Conflict(f"{run} of {table.name} is active", hint="wait for it to end, or cancel it")
    uow.pipelines.request_plans([pipeline.id], job.created_at)  # triggers count its outcome
    return job


def build_job(
    uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, subject: UUID, reason: str, params: Mapping[str, Any]
) -> Job:
    """A job of a table of a pipeline, with the settings of its target. A job beside the runs lets these go first."""
    policy, now = load_target_policy(uow, table.catalog, table.name), uow.now()
    if any(member.definition.has_code for member in _list_together(uow, pipeline, table)):
        params = {**params, CODE: True}
    priority, is_run = policy["firn.optimize.priority"], subject == table.id
    return Job(
        id=JobId(uuid4()),
        catalog=table.catalog,
        subject_id=subject,
        table=table.name,
        kind=JobKind.PIPELINE,
        status=JobStatus.PENDING,
        group=policy["firn.optimize.group"],
        reason=reason,
        created_at=now,
        deadline=compute_deadline(kind_of(JobKind.PIPELINE).max_wait, priority, now, requested=is_run),
        priority=priority,
        params={"state": REQUESTED, "pipeline": pipeline.name, "version": pipeline.version, **params},
    )
