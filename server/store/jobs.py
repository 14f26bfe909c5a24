"""Jobs, their commits and logs in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Integer, Select, Table, bindparam, delete, exists, func, or_, select, union_all, update
from sqlalchemy.exc import IntegrityError

from catalog.errors import Conflict, NotFound
from catalog.jobs.job import CODE, REMEMBERED_JOBS, Attempt, CommitRecord, Job, JobId, JobKind, JobStatus, LeaseToken
from catalog.jobs.queue import count_bytes_freed, count_bytes_rewritten
from catalog.names import SEPARATOR, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from catalog.ports.work import JobFilter
from firn.protocol.orphans import BatchState
from server.store import cursor as cursors
from server.store.hive_rows import StagedBaselinesRow
from server.store.job_rows import JobCommitRow, JobLogRow, JobRow, OrphanBatchRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_ACTIVE = [status for status in JobStatus if status.is_active]
_SAME = [
    "id",
    "catalog",
    "subject_id",
    "kind",
    "status",
    "reason",
    "created_at",
    "deadline",
    "priority",
    "is_long",
    "predicted_seconds",
    "attempt",
    "token",
    "owner",
    "leased_at",
    "lease_until",
    "committed_by",
    "committed_snapshot_id",
    "ended_at",
    "error",
    "params",
    "progress",
    "result",
    "predicted",
]
_TABLE = cast("Table", JobRow.__table__)


def _last_of(kind: JobKind) -> Select[tuple[int]]:
    """Build the query for the numbers of a table's newest jobs of one kind, which uses an index."""
    of = (_TABLE.c.subject_id == bindparam("relation_id"), _TABLE.c.kind == kind, ~_TABLE.c.withdrawn)
    newest = select(_TABLE.c.number).where(*of).order_by(_TABLE.c.number.desc()).limit(bindparam("most", type_=Integer))
    return select(newest.subquery().c.number)


_LAST_OF_EACH_KIND = (
    select(_TABLE).where(_TABLE.c.number.in_(union_all(*map(_last_of, JobKind)))).order_by(_TABLE.c.number.desc())
)
_FIRST_FORGOTTEN = (
    select(_TABLE.c.number)
    .where(_TABLE.c.subject_id == bindparam("of"), _TABLE.c.kind == bindparam("which"), ~_TABLE.c.withdrawn)
    .order_by(_TABLE.c.number.desc())
    .limit(1)
    .offset(REMEMBERED_JOBS)
)
_SUPERSEDE = update(_TABLE).where(_TABLE.c.number == _FIRST_FORGOTTEN.scalar_subquery()).values(superseded=True)
_NO_ORPHANS_LEFT = [
    ~exists().where(of == JobRow.id, OrphanBatchRow.state != BatchState.DELETED)
    for of in (OrphanBatchRow.job_id, OrphanBatchRow.deleted_by)
]


@dataclass(frozen=True)
class SqlJobs:
    """See catalog.ports.work.Jobs."""

    session: ReadSession

    def add(self, job: Job) -> bool:
        """Add a job; False when its subject already has an active job."""
        return insert_unless_taken(self.session, JobRow, _values(job) | {"superseded": False})

    def get(self, job_id: JobId) -> Job:
        """Get a job; NotFound."""
        return self._convert(job_id, self.session.scalar(select(JobRow).where(JobRow.id == job_id)))

    def lock(self, job_id: JobId) -> Job:
        """Get a job and lock it until the transaction ends (SQLite has one writer at a time); NotFound."""
        query = select(JobRow).where(JobRow.id == job_id).with_for_update().execution_options(populate_existing=True)
        return self._convert(job_id, self.session.scalar(query))

    @staticmethod
    def _convert(job_id: JobId, row: JobRow | None) -> Job:
        if row is None:
            raise NotFound(f"job {job_id} does not exist")
        return to_job(row)

    def put(self, job: Job) -> None:
        """Replace a job. A withdrawn job, or the oldest beyond the remembered ones, becomes superseded."""
        values = _values(job) | ({"superseded": True} if job.was_withdrawn else {})
        self.session.execute(update(JobRow).where(JobRow.id == job.id).values(**values))
        if not (job.status.is_active or job.was_withdrawn):
            self.session.execute(_SUPERSEDE, {"of": job.subject_id, "which": job.kind})

    def active_of(self, subject_id: UUID) -> Job | None:
        """Find the active job of a subject."""
        row = self.session.scalar(select(JobRow).where(JobRow.subject_id == subject_id, JobRow.status.in_(_ACTIVE)))
        return None if row is None else to_job(row)

    def active_of_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Job]:
        """Find the active jobs by table, in one query."""
        query = select(JobRow).where(JobRow.subject_id.in_(relation_ids), JobRow.status.in_(_ACTIVE))
        return {RelationId(row.subject_id): to_job(row) for row in self.session.scalars(query)}

    def kinds_of(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobKind]:
        """Find the kinds of jobs that are still kept."""
        rows = self.session.execute(select(JobRow.id, JobRow.kind).where(JobRow.id.in_(job_ids)))
        return {JobId(row.id): JobKind(row.kind) for row in rows}

    def last_of(self, subject_id: UUID, kind: JobKind) -> Job | None:
        """Find the newest job of a kind, withdrawn or not."""
        query = select(JobRow).where(JobRow.subject_id == subject_id, JobRow.kind == kind)
        row = self.session.scalar(query.order_by(JobRow.number.desc()).limit(1))
        return None if row is None else to_job(row)

    def last_of_each_kind(self, relation_id: RelationId, *, limit: int) -> Sequence[Job]:
        """List the last jobs of each kind, newest first. Each kind has its own query, since some kinds are rare."""
        values = {"relation_id": relation_id, "most": limit}
        return [to_job(row) for row in self.session.execute(_LAST_OF_EACH_KIND, values)]

    def next_pending(
        self,
        group: str,
        kinds: Collection[JobKind],
        *,
        requested: bool,
        long: bool = True,
        allow_code: bool = False,
        lock: bool,
    ) -> Job | None:
        """Find the next pending job by the index of the queue."""
        query = select(JobRow).where(
            JobRow.status == JobStatus.PENDING, JobRow.group_name == group, JobRow.kind.in_(kinds)
        )
        query = query.where(JobRow.requested if requested else ~JobRow.requested)
        if not long:
            query = query.where(~JobRow.is_long)
        if not allow_code:
            is_code = JobRow.params[CODE].as_boolean()
            query = query.where(or_(is_code.is_(None), ~is_code))
        query = query.order_by(JobRow.deadline, JobRow.number).limit(1)
        row = self.session.scalar(query.with_for_update(skip_locked=True) if lock else query)
        return None if row is None else to_job(row)

    def with_status(self, statuses: Collection[JobStatus]) -> Sequence[Job]:
        """List jobs with these statuses, oldest first."""
        return [
            to_job(row)
            for row in self.session.scalars(select(JobRow).where(JobRow.status.in_(statuses)).order_by(JobRow.number))
        ]

    def counts(self) -> Mapping[JobStatus, int]:
        """Count active jobs by status, by an index that ended jobs do not slow down."""
        query = select(JobRow.status, func.count()).where(JobRow.status.in_(_ACTIVE)).group_by(JobRow.status)
        return {JobStatus(status): count for status, count in self.session.execute(query)}

    def list(self, which: JobFilter | None = None, *, limit: int, cursor: str | None = None) -> Page[Job]:
        """List jobs, newest first, by the index of the table or by number."""
        query = _filter(select(JobRow), which or JobFilter())
        if cursor is not None:
            query = query.where(JobRow.number < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(JobRow.number.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([to_job(row) for row in rows[:limit]], more)

    def record_commit(self, job_id: JobId, relation_id: RelationId, record: CommitRecord) -> None:
        """Record a commit of the job on a relation; Conflict when its number is recorded already."""
        try:
            with self.session.begin_nested():
                self.session.add(
                    JobCommitRow(
                        job_id=job_id,
                        relation_id=relation_id,
                        number=record.number,
                        token=record.token,
                        snapshot_id=record.snapshot_id,
                        digest=record.digest,
                    )
                )
        except IntegrityError as error:
            raise Conflict(f"job {job_id} has already committed to this table") from error

    def recorded_commits(self, job_id: JobId, relation_id: RelationId) -> Sequence[CommitRecord]:
        """List the job's commits on a relation by number."""
        query = select(JobCommitRow).where(JobCommitRow.job_id == job_id, JobCommitRow.relation_id == relation_id)
        return [
            CommitRecord(token=LeaseToken(row.token), snapshot_id=row.snapshot_id, digest=row.digest, number=row.number)
            for row in self.session.scalars(query.order_by(JobCommitRow.number))
        ]

    def add_log(self, job_id: JobId, lines: Sequence[str], now: datetime) -> None:
        """Append lines to the job's log."""
        self.session.add_all(JobLogRow(job_id=job_id, at=now, line=line) for line in lines)
        self.session.flush()

    def log(self, job_id: JobId) -> Sequence[tuple[datetime, str]]:
        """Get all log lines, oldest first."""
        query = select(JobLogRow.at, JobLogRow.line).where(JobLogRow.job_id == job_id).order_by(JobLogRow.id)
        return [(at, line) for at, line in self.session.execute(query)]

    def remove_ended(self, before: datetime, *, limit: int) -> int:
        """Remove superseded jobs that ended before a time, by an index; returns their number."""
        query = select(JobRow.id).where(JobRow.superseded, JobRow.ended_at < before, *_NO_ORPHANS_LEFT)
        ids = self.session.scalars(query.order_by(JobRow.ended_at).limit(limit)).all()
        batches = select(OrphanBatchRow.id, OrphanBatchRow.kept).where(OrphanBatchRow.deleted_by.in_(ids))
        finished = [batch for batch, kept in self.session.execute(batches) if not kept]  # restored files stay recorded
        self.session.execute(delete(OrphanBatchRow).where(OrphanBatchRow.id.in_(finished)))
        for row in (JobLogRow, JobCommitRow, StagedBaselinesRow):
            self.session.execute(delete(row).where(row.job_id.in_(ids)))
        self.session.execute(delete(JobRow).where(JobRow.id.in_(ids)))
        return len(ids)


def _filter(query: Select[JobRow], which: JobFilter) -> Select[JobRow]:
    if which.catalog is not None:
        query = query.where(JobRow.catalog == which.catalog)
    if which.relation_id is not None:
        query = query.where(JobRow.subject_id == which.relation_id)
    if which.subject_ids is not None:
        query = query.where(JobRow.subject_id.in_(which.subject_ids))
    if which.statuses:
        query = query.where(JobRow.status.in_(which.statuses))
    if which.kinds:
        query = query.where(JobRow.kind.in_(which.kinds))
    if which.group is not None:
        query = query.where(JobRow.group_name == which.group)
    if which.search:
        full = func.replace(JobRow.namespace, SEPARATOR, ".") + "." + JobRow.name
        query = query.where(full.icontains(which.search, autoescape=True))
    return query


def _values(job: Job) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in _SAME}
    values |= {"requested": job.was_requested, "withdrawn": job.was_withdrawn}
    values["attempts"] = [attempt.as_json() for attempt in job.attempts]
    moved = {"bytes_rewritten": count_bytes_rewritten(job.result), "bytes_freed": count_bytes_freed(job.result)}
    named = {"namespace": encode_namespace(job.table.namespace), "name": job.table.name, "group_name": job.group}
    return values | named | moved


def to_job(row: Any) -> Job:
    values = {name: getattr(row, name) for name in _SAME}
    values |= {"kind": JobKind(row.kind), "status": JobStatus(row.status), "group": row.group_name}
    values["attempts"] = tuple(Attempt.from_json(attempt) for attempt in row.attempts)
    return Job(**values, table=TableName(decode_namespace(row.namespace), row.name))
