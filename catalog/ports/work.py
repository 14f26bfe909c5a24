"""The database, seen by those who plan and hand out background work; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

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
        """What holds for a group whether somebody has made it or not."""

    def list(self) -> Sequence[Group]:
        """By name."""

    def put(self, group: Group) -> None: ...
    def remove(self, name: GroupName) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which tables are listed and in which order; None means all."""

    sort: Sort
    kinds: Collection[RelationKind]
    namespace: Namespace | None = None
    search: str | None = None
    health_below: int | None = None


class TableStatuses(Protocol):
    """What the planner found when it last looked at each table."""

    def put(self, table_statuses: Sequence[TableStatus]) -> None: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStatus]: ...
    def remove(self, relation_ids: Collection[RelationId]) -> None: ...
    def long_ago(self, before: datetime, now: datetime, *, limit: int) -> Sequence[RelationId]:
        """Tables that were last looked at before then, or at a time that has not come yet; longest ago first."""

    def list(
        self, catalog: CatalogName, listing: Listing, *, limit: int, cursor: str | None = None
    ) -> Page[Relation]: ...
    def by_health(self, grades: Mapping[str, int]) -> Mapping[str, int]:
        """How many tables there are of each grade, which is named with the least health that it takes."""

    def worst(self, *, limit: int) -> Sequence[tuple[Relation, TableStatus]]:
        """The least healthy tables of all catalogs."""


class FileLayouts(Protocol):
    """How tables' and stores' files lay when they were counted last, and which are to be counted again."""

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, FileLayout]:
        """Of those that have been counted."""

    def want(self, relation_ids: Collection[RelationId], now: datetime) -> None:
        """Have these counted; later where counting takes long and was done a moment ago."""

    def wanted(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """What is to be counted by then, wanted longest first."""

    def put(self, relation_id: RelationId, layout: FileLayout, now: datetime) -> None:
        """Insert or replace; it is not wanted any more."""

    def put_off(self, relation_id: RelationId, until: datetime | None) -> None:
        """Have it counted no earlier; None: not at all until it is wanted again."""

    def forget(self, relation_id: RelationId) -> None:
        """The table is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are listed; nothing means all. `search` is a part of a table's full name, dots included."""

    catalog: CatalogName | None = None
    relation_id: RelationId | None = None
    statuses: Collection[JobStatus] = ()
    kinds: Collection[JobKind] = ()
    group: str | None = None
    search: str | None = None


class Jobs(Protocol):
    """Background jobs and what each has committed."""

    def add(self, job: Job) -> bool:
        """False when the table has an active job already: of two planners one wins."""

    def get(self, job_id: JobId) -> Job: ...

    def lock(self, job_id: JobId) -> Job:
        """The job's current row, kept from changing until this transaction ends."""

    def put(self, job: Job) -> None: ...
    def active_of(self, relation_id: RelationId) -> Job | None: ...
    def active_of_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Job]: ...
    def last_of(self, relation_id: RelationId, kind: JobKind) -> Job | None: ...
    def last_of_each_kind(self, relation_id: RelationId, *, limit: int) -> Sequence[Job]:
        """The newest of each kind, so many at most of each, but those that were withdrawn; all of them newest first."""

    def next_pending(
        self, group: str, kinds: Collection[JobKind], *, asked: bool, long: bool = True, lock: bool
    ) -> Job | None:
        """The one with the earliest deadline of those that were asked for or not; `long` as well as short.

        With `lock` it is kept for this transaction, so that of two optimizers one gets it.
        """

    def with_status(self, statuses: Collection[JobStatus]) -> Sequence[Job]: ...
    def counts(self) -> Mapping[JobStatus, int]:
        """How many active jobs stand where."""

    def remove_ended(self, before: datetime, *, limit: int) -> int:
        """Forget so many at most that ended before, with their logs, commits and orphans; how many.

        The last REMEMBERED_JOBS of each kind and table stay, and so do jobs whose orphans are not deleted yet.
        """

    def list(self, which: JobFilter | None = None, *, limit: int, cursor: str | None = None) -> Page[Job]:
        """Newest first; None is all of them."""

    def record_commit(self, job_id: JobId, relation_id: RelationId, record: CommitRecord) -> None:
        """Note that the job's commit on this relation is being applied; Conflict when its number is noted already."""

    def recorded_commits(self, job_id: JobId, relation_id: RelationId) -> Sequence[CommitRecord]:
        """The job's commits on this relation, by number."""

    def add_log(self, job_id: JobId, lines: Sequence[str], now: datetime) -> None: ...
    def log(self, job_id: JobId) -> Sequence[tuple[datetime, str]]: ...


class Queue(Protocol):
    """Jobs as a whole: who waits for whom, and what was done."""

    def hold(self, group: GroupName) -> None:
        """Until this transaction ends nobody else holds the same group."""

    def long_leased(self, group: GroupName) -> int:
        """How many long jobs of a group have a slot now."""

    def ran_since(self, group: GroupName, since: datetime) -> Sequence[SlotRun]:
        """Jobs of a group that had a slot after then, or have one."""

    def pending_seconds(self, group: GroupName) -> Mapping[CatalogName, float]:
        """What the jobs that wait in a group are predicted to take, by catalog."""

    def last_was_asked(self, group: GroupName) -> bool:
        """Whether the job of a group that was leased last is one that somebody has asked for."""

    def waiting(self) -> Sequence[QueuedJobs]: ...
    def leased(self) -> Mapping[tuple[GroupName, JobKind], int]:
        """How many jobs have a slot, by group and kind."""

    def done(self, since: datetime) -> Sequence[FinishedJobs]: ...
    def done_by_hour(self, since: datetime) -> Sequence[FinishedInHour]:
        """The hours in which any job has ended, oldest first."""

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Job]:
        """Jobs that should have begun by now, the most overdue first."""

    def count_due(self, now: datetime) -> int:
        """Tables and stores that wait for the planner to look at them."""
