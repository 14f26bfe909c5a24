"""The database's groups, table statuses, file layouts, jobs and queue; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.files.file_layout import FileLayout
from catalog.jobs.job import CommitRecord, Job, JobId, JobKind, JobStatus
from catalog.jobs.optimizer_group import Group, GroupName
from catalog.jobs.queue import FinishedInHour, FinishedJobs, QueuedJobs
from catalog.jobs.scheduling import SlotRun
from catalog.names import CatalogName, Namespace, RelationId
from catalog.ports.page import Page
from catalog.tables.relation import Relation, RelationKind
from catalog.tables.table_status import TableStatus
from firn.protocol.tables import Sort


class Groups(Protocol):
    """Groups of optimizers; the default one is always there."""

    def add(self, group: Group) -> None: ...
    def get(self, name: GroupName) -> Group: ...
    def settings_of(self, name: GroupName) -> Group:
        """The settings of a group; the defaults if it has no entry."""

    def list(self) -> Sequence[Group]:
        """In order of names."""

    def put(self, group: Group) -> None: ...
    def remove(self, name: GroupName) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The filter and the order of a list of tables; None means all."""

    sort: Sort
    kinds: Collection[RelationKind]
    namespace: Namespace | None = None
    search: str | None = None
    health_below: int | None = None


class TableStatuses(Protocol):
    """The planner's last assessment of each table."""

    def put(self, table_statuses: Sequence[TableStatus]) -> None: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStatus]: ...
    def remove(self, relation_ids: Collection[RelationId]) -> None: ...
    def long_ago(self, before: datetime, now: datetime, *, limit: int) -> Sequence[RelationId]:
        """Tables with an old assessment, or one from the future; oldest first."""

    def list(
        self, catalog: CatalogName, listing: Listing, *, limit: int, cursor: str | None = None
    ) -> Page[Relation]: ...
    def worst_within(
        self, catalog: CatalogName, namespaces: Collection[Namespace] | None, *, limit: int
    ) -> Sequence[tuple[Relation, TableStatus]]:
        """The least healthy tables of a catalog or of some of its namespaces, without those that are healthy."""

    def count_written(self, catalog: CatalogName, since: Sequence[datetime]) -> Sequence[int]:
        """The numbers of tables of a catalog that have a commit since each of these times."""

    def by_health(self, grades: Mapping[str, int], catalog: CatalogName | None = None) -> Mapping[str, int]:
        """The number of tables of each grade; `grades` gives each grade's least health."""

    def worst(self, *, limit: int) -> Sequence[tuple[Relation, TableStatus]]:
        """The least healthy tables of all catalogs."""


class FileLayouts(Protocol):
    """The last counted file layouts of tables and stores, and the requests to count again."""

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, FileLayout]:
        """The layouts of those that were counted."""

    def request_counts(self, relation_ids: Collection[RelationId], now: datetime) -> None:
        """Request a count of these. It comes later for a table that was just counted and takes long."""

    def list_requested(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """The requested counts that are due by then, oldest request first."""

    def put(self, relation_id: RelationId, layout: FileLayout, now: datetime) -> None:
        """Insert or replace the layout; this fulfils the request."""

    def put_off(self, relation_id: RelationId, until: datetime | None) -> None:
        """Postpone the requested count; None removes the request."""

    def delete(self, relation_id: RelationId) -> None:
        """Delete the layout and the request of a removed table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The filter of a list of jobs; the defaults mean all. `search` is a part of a
    table's full name, dots included.
    """

    catalog: CatalogName | None = None
    relation_id: RelationId | None = None
    subject_ids: Collection[UUID] | None = None
    statuses: Collection[JobStatus] = ()
    kinds: Collection[JobKind] = ()
    group: str | None = None
    search: str | None = None


class Jobs(Protocol):
    """Background jobs and their commits."""

    def add(self, job: Job) -> bool:
        """False if its subject has an active job already: of two concurrent planners one succeeds."""

    def get(self, job_id: JobId) -> Job: ...

    def lock(self, job_id: JobId) -> Job:
        """The job's current row, locked until this transaction ends."""

    def put(self, job: Job) -> None: ...
    def active_of(self, subject_id: UUID) -> Job | None: ...
    def active_of_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Job]: ...
    def kinds_of(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobKind]:
        """The kinds of the jobs that are still kept."""

    def last_of(self, subject_id: UUID, kind: JobKind) -> Job | None: ...
    def last_of_each_kind(self, relation_id: RelationId, *, limit: int) -> Sequence[Job]:
        """The newest jobs of each kind, at most `limit` of each, without withdrawn ones; all of them newest first."""

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
        """The pending job with the earliest deadline, either among requested or among planned ones; with `long`, also
        long jobs. Without `allow_code` it has no Python to run.

        With `lock` the row is locked for this transaction, so that one of two optimizers gets it.
        """

    def with_status(self, statuses: Collection[JobStatus]) -> Sequence[Job]: ...
    def counts(self) -> Mapping[JobStatus, int]:
        """The number of active jobs by status."""

    def remove_ended(self, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` jobs that ended before, with their logs, commits and orphans; returns their number.

        The last REMEMBERED_JOBS of each kind and table stay, and so do jobs whose orphans are not deleted yet.
        """

    def list(self, which: JobFilter | None = None, *, limit: int, cursor: str | None = None) -> Page[Job]:
        """Newest first; None means all."""

    def record_commit(self, job_id: JobId, relation_id: RelationId, record: CommitRecord) -> None:
        """Record a commit of the job on this relation as it is applied; Conflict if its number is recorded already."""

    def recorded_commits(self, job_id: JobId, relation_id: RelationId) -> Sequence[CommitRecord]:
        """The job's commits on this relation, by number."""

    def add_log(self, job_id: JobId, lines: Sequence[str], now: datetime) -> None: ...
    def log(self, job_id: JobId) -> Sequence[tuple[datetime, str]]: ...


class Queue(Protocol):
    """All jobs together: waiting, running and finished ones."""

    def hold(self, group: GroupName) -> None:
        """Lock the group until this transaction ends."""

    def long_leased(self, group: GroupName) -> int:
        """The number of long jobs of a group that hold a slot."""

    def ran_since(self, group: GroupName, since: datetime) -> Sequence[SlotRun]:
        """Jobs of a group that held a slot after then, or hold one."""

    def pending_seconds(self, group: GroupName) -> Mapping[CatalogName, float]:
        """The predicted seconds of a group's waiting jobs, by catalog."""

    def last_was_asked(self, group: GroupName) -> bool:
        """Whether the group's last leased job was a requested one."""

    def waiting(self) -> Sequence[QueuedJobs]: ...
    def leased(self) -> Mapping[tuple[GroupName, JobKind], int]:
        """The number of jobs with a slot, by group and kind."""

    def done(self, since: datetime) -> Sequence[FinishedJobs]: ...
    def done_by_hour(self, since: datetime) -> Sequence[FinishedInHour]:
        """The hours in which a job ended, oldest first."""

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Job]:
        """Jobs past their deadline that have not started, the most overdue first."""

    def count_due(self, now: datetime) -> int:
        """The number of tables and stores that wait for the planner."""
