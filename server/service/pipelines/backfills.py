"""Backfills: users request, list, pause, resume and cancel them; a full run claims their chunks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import Progress, check_progress
from catalog.errors import Conflict, Invalid, NoSuchTable, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.jobs.leases import Lease, check_lease
from catalog.names import TableName
from catalog.pipelines.backfill import (
    MOST_OPEN,
    Backfill,
    BackfillId,
    Chunk,
    Reached,
    change_status,
    check_table,
    settle_backfill,
)
from catalog.pipelines.beside import check_beside
from catalog.pipelines.pipeline import Pipeline, PipelineTable, StoredCheckpoint, name_writer
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.backfills import CHUNK_SECONDS, BackfillRequest, BackfillStatus, ClaimRequest, ReplayRequest
from server.service.commit.commit_target import load_metadata
from server.service.pipelines.beside import check_store, list_active_jobs
from server.service.pipelines.beside_jobs import start_beside_jobs
from server.service.pipelines.chunk_claims import claim_all_chunks, find_reached, settle_backfills
from server.service.pipelines.conditions import cut_into_chunks
from server.service.pipelines.pins import KEPT_CHECKPOINTS, PipelinePins
from server.service.pipelines.repeated_requests import build_backfill_id, check_repeated_backfill, find_backfill
from server.service.pipelines.runs import check_live, get_table, read_run_tables
from server.service.pipelines.sets import find_subjects
from server.service.pipelines.targets import Target, fence_writer, find_checkpoint, find_target
from server.service.tables.metadata_files import MetadataFiles

KEPT_BACKFILLS = 100
"""The number of backfills that the server keeps of a table, beside the open ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillView:
    """A backfill as it is now: `running` are the numbers of chunks that the active run of the table computes, or `jobs`
    beside the runs.
    """

    pipeline: Pipeline
    table: PipelineTable
    backfill: Backfill
    running: Collection[int] = frozenset()
    jobs: Collection[str] = ()


@dataclass(frozen=True)
class PipelineBackfills:
    """Backfills of the tables of pipelines. Runs compute their chunks (see PipelinePins)."""

    database: Database
    metadata: MetadataFiles
    pins: PipelinePins

    def request(self, name: str, table_name: TableName, body: BackfillRequest, requester: str | None) -> BackfillView:
        """Request a backfill; with `dry_run` only cut it into chunks.

        The key of an earlier request leads to the backfill of that one, and Invalid if it wanted another backfill.
        Raises NotFound; InvalidDefinition for a condition that is not one over the scope; Conflict for a table whose
        runs compute all rows or none again, or beside whose runs no chunks can be computed, and for too many open
        backfills.
        """
        with self.database.reading() as uow:
            pipeline, table = _find(uow, name, table_name)
            backfill_id = build_backfill_id(table, requester, body)
            if (stored := find_backfill(uow, backfill_id)) is not None:
                check_repeated_backfill(stored, body)
                return _view(uow, pipeline, table, [stored])[0]
            check = check_table if body.beside is None else check_beside
            check(table.definition, is_built=_is_built(uow, pipeline, table))
            if body.beside is not None:
                check_store(uow, _get_target(uow, pipeline, table))
            deterministic = uow.pipelines.get_version(pipeline.id, pipeline.version).deterministic
            store, now = _get_store(uow, pipeline, table), uow.now()
        types = _read_types(load_metadata(self.metadata, store), table.definition.scope)
        conditions = cut_into_chunks(body.where, types, deterministic, body.chunks, now.date())
        backfill = Backfill(
            id=backfill_id,
            table_id=table.id,
            where=body.where,
            created_at=now,
            created_by=requester,
            chunk_seconds=body.chunk_seconds,
            beside=body.beside,
            chunks=[Chunk(number=number, condition=condition) for number, condition in enumerate(conditions, 1)],
        )
        if not body.dry_run:
            backfill = self._store(pipeline, table, backfill)
            check_repeated_backfill(backfill, body)
        return BackfillView(pipeline=pipeline, table=table, backfill=backfill)

    def replay(self, name: str, table_name: TableName, body: ReplayRequest, requester: str | None) -> BackfillView:
        """Request a replay of what has changed since a checkpoint (docs/protocols.md, rule 8.13).

        Raises NotFound for an unknown table or checkpoint, and Conflict for a checkpoint that cannot be used any more,
        and for a table whose runs compute all rows or none again.
        """
        with self.database.reading() as uow:
            pipeline, table = _find(uow, name, table_name)
            check_table(table.definition, is_built=_is_built(uow, pipeline, table))
            checkpoint, now = self._find_checkpoint(uow, table, body), uow.now()
        backfill = Backfill(
            id=BackfillId(uuid4()),
            table_id=table.id,
            where=None,
            since=checkpoint.id,
            created_at=now,
            created_by=requester,
            chunk_seconds=CHUNK_SECONDS,
            chunks=[Chunk(number=1, condition=f"changes since {checkpoint.pinned_at:%Y-%m-%d %H:%M:%S} UTC")],
        )
        if not body.dry_run:
            self._store(pipeline, table, backfill)
        return BackfillView(pipeline=pipeline, table=table, backfill=backfill)

    def _find_checkpoint(self, uow: UnitOfWork, table: PipelineTable, body: ReplayRequest) -> StoredCheckpoint:
        """The checkpoint that a request names, or the oldest usable one."""
        stored = uow.checkpoints.list(table.id, limit=KEPT_CHECKPOINTS)
        if body.checkpoint is None and body.at is None:
            judged = self.pins.explain_unusable(uow, table, reversed(stored))
            chosen = next((entry for entry, problem in judged if problem is None), None)
        else:
            chosen = next((entry for entry in stored if _is_asked_for(entry, body)), None)
        if chosen is None:
            hint = f"`firn pipeline runs` shows the checkpoints of {table.name}"
            raise NotFound(f"{table.name} has no such checkpoint", hint=hint)
        _, problem = next(self.pins.explain_unusable(uow, table, [chosen]))
        if problem is not None:
            hint = "choose a later one, or use --earliest"
            raise Conflict(f"checkpoint {chosen.id} cannot be used: {problem}", hint=hint)
        return chosen

    def list(self, name: str, table_name: TableName, *, limit: int, cursor: str | None) -> Page[BackfillView]:
        """List the backfills of a table, newest first; NotFound."""
        with self.database.reading() as uow:
            pipeline, table = _find(uow, name, table_name)
            page = uow.backfills.list([table.id], limit=limit, cursor=cursor)
            return Page(_view(uow, pipeline, table, page.items), page.next_cursor)

    def get(self, name: str, table_name: TableName, backfill_id: BackfillId) -> BackfillView:
        """Get a backfill; NotFound."""
        with self.database.reading() as uow:
            pipeline, table = _find(uow, name, table_name)
            return _view(uow, pipeline, table, [_get_backfill(uow, table, backfill_id)])[0]

    def change(self, name: str, table_name: TableName, backfill_id: BackfillId, status: BackfillStatus) -> BackfillView:
        """Pause, resume or cancel a backfill; NotFound, and Conflict for one that has ended.

        A run that works on chunks now may still commit them.
        """
        with self.database.writing() as uow:
            pipeline, table = _find(uow, name, table_name)
            if status is BackfillStatus.ACTIVE:
                uow.pipelines.plan_at(pipeline.id, uow.now())  # before the table is locked, as `put` does
            table = uow.pipelines.lock_table(table.id)
            settle_backfills(uow, table.id, _get_position(uow, pipeline, table))
            backfill = _get_backfill(uow, table, backfill_id)
            changed = change_status(backfill, status, uow.now())
            if changed.beside is not None and not backfill.status.is_open and changed.status.is_open:
                fence_writer(uow, pipeline.name, table)  # runs that have pinned meanwhile leave out unchanged rows
            uow.backfills.put(changed)
            start_beside_jobs(uow, pipeline, table, backfill_id)
        return BackfillView(pipeline=pipeline, table=table, backfill=changed)

    def claim_all(self, lease: Lease, claim: ClaimRequest) -> Mapping[str, Sequence[int]]:
        """Let the commit of a run of all rows end all chunks that are left (docs/protocols.md, rule 8.12).

        Returns their numbers by the ids of the backfills. Raises LeaseLost, WriterFenced, PositionMoved, Invalid.
        """
        with self.database.writing() as uow:
            job = check_live(check_lease(uow.jobs.lock(lease.job_id), lease))
            pipeline, tables = read_run_tables(uow, job)
            table = next((entry for entry in tables if str(entry.name) == claim.table), None)
            if table is None:
                raise Invalid(f"{claim.table} is no table of this run")
            uow.pipelines.lock_table(table.id)
            target, until = _get_target(uow, pipeline, table), uow.checkpoints.find(table.id, claim.checkpoint)
            if until is None or until.job_id != job.id:
                raise Invalid(f"{claim.checkpoint!r} is no checkpoint of this run")
            writer = uow.writers.lock(target.store_id, name_writer(pipeline.name, table.name))
            start = "" if writer is None else writer.position
            progress = Progress(writer=until.writer, epoch=claim.epoch, start=start, end=until.id, snapshot_id=0)
            check_progress(writer, progress)
            return claim_all_chunks(uow, job, until)

    def _store(self, pipeline: Pipeline, table: PipelineTable, backfill: Backfill) -> Backfill:
        """Store a backfill, and start runs for it; or return the one that another request has stored meanwhile."""
        with self.database.writing() as uow:
            uow.pipelines.plan_at(pipeline.id, uow.now())  # before the table is locked, as `put` does
            locked = uow.pipelines.lock_table(table.id)
            if (stored := find_backfill(uow, backfill.id)) is not None:
                return stored
            if locked.definition != table.definition:
                raise Conflict(f"the definition of {table.name} has just changed", hint="request the backfill again")
            check_table(locked.definition, is_built=_is_built(uow, pipeline, locked))
            if len(settle_backfills(uow, table.id, _get_position(uow, pipeline, locked))) >= MOST_OPEN:
                raise Conflict(f"{table.name} has {MOST_OPEN} open backfills", hint="cancel one, or wait for its end")
            if backfill.beside is not None:  # a run that has pinned before leaves out unchanged rows (rule 8.26)
                check_beside(locked.definition, is_built=True)
                fence_writer(uow, pipeline.name, locked)
            uow.backfills.add(backfill)
            start_beside_jobs(uow, pipeline, locked, backfill.id)
            uow.backfills.forget(table.id, keep=KEPT_BACKFILLS)
            return backfill


def _find(uow: UnitOfWork, name: str, table_name: TableName) -> tuple[Pipeline, PipelineTable]:
    pipeline = uow.pipelines.get(name)
    return pipeline, get_table(uow, pipeline, table_name)


def _is_asked_for(checkpoint: StoredCheckpoint, body: ReplayRequest) -> bool:
    """Whether a request names this checkpoint, or a time that is not before it."""
    if body.checkpoint is not None:
        return checkpoint.id == body.checkpoint
    return body.at is not None and checkpoint.pinned_at <= body.at


def _get_backfill(uow: UnitOfWork, table: PipelineTable, backfill_id: BackfillId) -> Backfill:
    backfill = uow.backfills.get(backfill_id)
    if backfill.table_id != table.id:
        raise NotFound(f"{table.name} has no backfill {backfill_id}")
    return backfill


def _get_target(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> Target:
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    if target is None:
        raise NoSuchTable(f"Table does not exist: {table.name}")
    return target


def _get_position(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> str:
    """The position of the table's writer, also without one."""
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    return NO_POSITION if target is None or target.writer is None else target.writer.position


def _view(
    uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, backfills: Sequence[Backfill]
) -> list[BackfillView]:
    reached = find_reached(uow, table.id, _get_position(uow, pipeline, table))
    subject = find_subjects(uow.pipelines.tables_of([pipeline.id])[pipeline.id])[table.id]
    active, newest = uow.jobs.active_of(subject), uow.checkpoints.list(table.id, limit=1)
    # Only the newest pins can still commit.
    claim = newest[0].id if newest and active is not None and newest[0].job_id == active.id else None
    views = list[BackfillView]()
    for backfill in backfills:
        settled = _settle(backfill, reached)
        claimed = {chunk.number for chunk in backfill.chunks if claim is not None and chunk.claim == claim}
        running = claimed & {chunk.number for chunk in settled.pending}
        jobs = list_active_jobs(uow, settled)
        running |= {chunk.number for chunk in settled.pending if chunk.take is not None and chunk.take.job in jobs}
        views.append(BackfillView(pipeline=pipeline, table=table, backfill=settled, running=running, jobs=jobs))
    return views


def _settle(backfill: Backfill, reached: Reached) -> Backfill:
    """The backfill as the next pins will store it."""
    is_finished = backfill.status is BackfillStatus.FINISHED and backfill.beside is None
    is_settled = backfill.status.is_open or is_finished
    return settle_backfill(backfill, reached) if is_settled else backfill


def _is_built(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> bool:
    checkpoint = find_checkpoint(uow, pipeline, table)
    return checkpoint is not None and checkpoint.fingerprint == table.definition.fingerprint


def _get_store(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> Relation:
    """The table whose metadata file has the columns: base, if the target is keyed."""
    target = _get_target(uow, pipeline, table)
    if target.relation.kind is not RelationKind.KEYED:
        return target.relation
    return uow.relations.get(uow.keyed.get(target.relation.id).base_id)


def _read_types(metadata: Json, scope: Sequence[str]) -> dict[str, str]:
    """The types of the columns of the scope, by their names in lower case."""
    types = {str(field["name"]).lower(): field["type"] for field in current_schema(metadata)["fields"]}
    missing = [name for name in scope if name.lower() not in types]
    if missing:
        raise Conflict(f"the table has no column {missing[0]}", hint="run the pipeline's table, and request it again")
    return {name.lower(): kind if isinstance(kind := types[name.lower()], str) else "" for name in scope}
