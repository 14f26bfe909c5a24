"""Judges what an optimizer takes for orphans, and sets aside what it is right about.

The order is what makes it safe. The optimizer lists first; what it proposes reaches the server later, and only then is
the table's metadata read: a file that was written and committed during the listing is found there. Whatever the
optimizer has computed, every file that it proposes is proved here again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from cachetools import LRUCache

from catalog.errors import Conflict, NotFound
from catalog.hive.retired_directories import FilesInUse
from catalog.jobs.job import Job, JobId
from catalog.jobs.leases import Lease
from catalog.names import RelationId
from catalog.ports.orphans import NamedFiles, QuarantineFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.orphan_files import (
    BatchState,
    KeepReason,
    OrphanBatch,
    ReportedFile,
    SeenFile,
    compute_cutoff,
    find_keep_reason,
    list_names,
    split_batches,
)
from catalog.tables.relation import Relation
from firn.protocol.locations import normalize_location
from firn.protocol.tasks.orphans import ListedTable, OrphansTask
from server.service.orphans.context import OrphanContext, load_context, load_leased_context
from server.service.orphans.published_locations import HiveReaders
from server.service.orphans.quarantine import Check, Quarantine
from server.service.orphans.reachable_files import ReachableNames, explain_foreign_metadata
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

_ENDING = (BatchState.ASIDE, BatchState.NOTED, BatchState.DELETING)
JOBS_REMEMBERED = 8
"""For so many the server knows which metadata files it has read already."""
LOOKED_AT_TOGETHER = 100
"""Batches of the quarantine that one request ends; the table's manifests are read once for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFiles:
    """What became of the files that an optimizer has proposed."""

    taken: Sequence[SeenFile] = ()
    """Set aside or noted; in a dry run those that would be."""
    kept: Mapping[KeepReason, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFiles:
    """What was deleted for good because its time in quarantine is over."""

    deleted_files: int = 0
    deleted_bytes: int = 0
    next_cursor: str | None = None
    """Where to go on; None when all has been looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetails:
    """A batch for people."""

    batch: OrphanBatch
    reason: str
    lines: Sequence[ReportedFile]
    deleted_after: datetime | None


@dataclass(frozen=True)
class Orphans:
    """The server's side of the job; safe to use from several servers."""

    database: Database
    metadata: MetadataFiles
    files: QuarantineFiles
    named: NamedFiles
    quarantine: Quarantine
    readers: HiveReaders
    _proven: LRUCache[JobId, set[str]] = field(default_factory=lambda: LRUCache(JOBS_REMEMBERED))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def task(self, uow: UnitOfWork, job: Job, _relation: Relation) -> OrphansTask:
        """What an optimizer needs to list and to compare; Conflict when the places are not the table's own."""
        context = load_context(uow, self.metadata, job)
        before = compute_cutoff(context.now, context.now, context.lease_began, context.min_age)
        published = context.published
        return OrphansTask(
            tables=[
                ListedTable(parts=[*one.name.namespace, one.name.name], location=one.location) for one in context.tables
            ],
            published=None if published is None or published.shared else published.location,
            unrepresentable=None if published is None else published.shared,
            before_ms=int(before.timestamp() * 1000),
            dry_run=context.dry_run,
            asked=job.was_requested,
        )

    def take(self, lease: Lease, proposed: Sequence[str], metadata_files: Sequence[str]) -> TakenFiles:
        """Set aside those of the proposed files that nothing needs.

        `metadata_files` are all files outside of the tables' `metadata` directories that look like metadata. LeaseLost
        when the lease has ended, Conflict when the place is not proved to be the table's own.
        """
        context = self._load_context(lease)
        with _nothing_missing(context):
            self._prove(context, metadata_files)
            files, kept = self._old_enough(context, proposed)
            in_use = self._in_use(context, files)
            files = _left_by_hive(context, files, in_use, kept)
            needed = ReachableNames(self.database, self.metadata, self.named, _names(files))
            found = needed.look(context.tables)
            left = [file for file in files if not list_names(file.location) & found]
            kept[KeepReason.NEEDED] += len(files) - len(left)
            back = [] if context.dry_run else self._set_aside(lease, context, left, needed, in_use)
        return TakenFiles(taken=[file for file in left if file.location not in back], kept=+kept)

    def _set_aside(
        self,
        lease: Lease,
        context: OrphanContext,
        files: Sequence[SeenFile],
        needed: ReachableNames,
        in_use: FilesInUse | None,
    ) -> Collection[str]:
        """Those that had to go back at once."""
        for moves in (True, False):
            some = [file for file in files if self.files.can_move(file.location, context.root) is moves]
            for batch in split_batches(some):
                self.quarantine.take(lease, context, batch, moves=moves, needed=_check(needed, in_use))
        return self._put_back_needed(context, _check(needed, self._in_use(context, files)), files)

    def end_overdue(self, lease: Lease, cursor: str | None = None) -> DeletedFiles:
        """Put the books in order that a dead process has left, and delete what has been in quarantine long enough.

        What is needed after all goes back, however short or long it has been there. Some batches at a time.
        """
        context = self._load_context(lease)
        if context.dry_run:
            return DeletedFiles()
        with _nothing_missing(context):
            self._prove(context, ())
            if cursor is None:
                self.quarantine.recover(context.relation.id)
            with self.database.reading() as uow:
                held = uow.orphans.list(
                    relation_id=context.relation.id, states=_ENDING, limit=LOOKED_AT_TOGETHER, cursor=cursor
                )
            return replace(self._end(lease, context, held.items), next_cursor=held.next_cursor)

    def _end(self, lease: Lease, context: OrphanContext, held: Sequence[OrphanBatch]) -> DeletedFiles:
        reports = self.quarantine.reports_of(held)
        held = [one for one in held if one.id in reports]
        files = [line.file for one in held for line in reports[one.id] if line.file.location not in one.kept]
        in_use = self._in_use(context, files)
        check = _check(ReachableNames(self.database, self.metadata, self.named, _names(files)), in_use)
        self._put_back_needed(context, check, files)
        ended = DeletedFiles()
        for batch in held:
            if not _can_end(context, reports[batch.id], in_use):
                continue
            if batch.state is BatchState.DELETING or context.now - batch.taken_at >= context.quarantine:
                done = self.quarantine.delete(lease, context, batch, check)
                ended = DeletedFiles(
                    deleted_files=ended.deleted_files + done.files, deleted_bytes=ended.deleted_bytes + done.bytes
                )
        return ended

    def describe(self, batches: Sequence[OrphanBatch]) -> list[BatchDetails]:
        """What people are shown of some batches; without lines while a report is not written, or no more there."""
        with self.database.reading() as uow:
            stay = {one: _time_aside(uow, one) for one in {batch.relation_id for batch in batches}}
        return [self._told(batch, stay[batch.relation_id]) for batch in batches]

    def _told(self, batch: OrphanBatch, stays: timedelta | None) -> BatchDetails:
        try:
            reason, lines = self.quarantine.reason(batch), self.quarantine.report(batch)
        except NotFound:
            reason, lines = "", []
        ends = stays is not None and batch.state in (BatchState.ASIDE, BatchState.NOTED)
        return BatchDetails(
            batch=batch, reason=reason, lines=lines, deleted_after=batch.taken_at + stays if stays and ends else None
        )

    def _load_context(self, lease: Lease) -> OrphanContext:
        with self.database.reading() as uow:
            return load_leased_context(uow, self.metadata, lease)

    def _prove(self, context: OrphanContext, metadata_files: Sequence[str]) -> None:
        with self._lock:
            proven = self._proven.setdefault(context.job.id, set())
        reason = explain_foreign_metadata(self.metadata, self.files, context.tables, metadata_files, proven)
        if reason is not None:
            raise Conflict(
                f"no file of {context.relation.name} is taken for an orphan: {reason}",
                hint="see docs/self-optimizing.md, Deleting safely",
            )

    def _old_enough(
        self, context: OrphanContext, proposed: Sequence[str]
    ) -> tuple[list[SeenFile], Counter[KeepReason]]:
        places = [normalize_location(one) for one in context.places]
        before = self._before(context)
        with self.database.reading() as uow:
            put_back = set(uow.orphans.put_back(context.relation.id))
        noted = self.quarantine.noted(context.relation.id)
        kept: Counter[KeepReason] = Counter()
        files: list[SeenFile] = []
        asked = list(dict.fromkeys(proposed))
        for location, file in zip(asked, self.files.look(asked), strict=True):
            reason = find_keep_reason(file, places, before)
            if reason is None and not any(self.files.is_below(location, one) for one in context.places):
                reason = KeepReason.ELSEWHERE
            if reason is None and location in put_back:
                reason = KeepReason.PUT_BACK
            if reason is None and file is not None and location in noted and file.same_as(noted[location]):
                reason = KeepReason.NOTED
            if reason is not None or file is None:
                kept[reason or KeepReason.GONE] += 1
            else:
                files.append(file)
        return files, kept

    def _before(self, context: OrphanContext) -> datetime:
        """By the database's clock and by the store's own, whichever makes files younger."""
        store_now = self.files.clock(context.directory)
        if store_now is None:
            raise Conflict(f"the store of {context.relation.name} does not say how old a file is: none is taken")
        return compute_cutoff(context.now, store_now, context.lease_began, context.min_age)

    def _in_use(self, context: OrphanContext, files: Sequence[SeenFile]) -> FilesInUse | None:
        """Where Hive's readers may be by now; None when that is not known, or none of the files concerns them."""
        if context.relation.hive_name is None or all(context.is_own(one.location) for one in files):
            return None
        return self.readers.in_use(context.relation)

    def _put_back_needed(self, context: OrphanContext, check: Check, files: Sequence[SeenFile]) -> Collection[str]:
        """A commit may have named an old file just while it was moved, or Hive been pointed there: it goes back."""
        with self.database.reading() as uow:
            tables = [uow.relations.get(one.id) for one in context.tables]
        missed = check(tables, [file.location for file in files])
        return self.quarantine.put_back(context.relation.id, paths=missed) if missed else []


def _names(files: Sequence[SeenFile]) -> set[str]:
    return {name for file in files for name in list_names(file.location)}


def _time_aside(uow: UnitOfWork, relation_id: RelationId) -> timedelta | None:
    """How long a table's files stay aside; None for one that is gone: they stay."""
    try:
        return cast("timedelta", load_facts(uow, uow.relations.get(relation_id)).policy["firn.orphans.quarantine"])
    except NotFound:
        return None


def _left_by_hive(
    context: OrphanContext, files: Sequence[SeenFile], in_use: FilesInUse | None, kept: Counter[KeepReason]
) -> list[SeenFile]:
    """Without those that Hive may read; the published place is Hive's as long as nobody knows better."""
    left = []
    for file in files:
        if in_use is None and not context.is_own(file.location):
            kept[KeepReason.HIVE_UNKNOWN] += 1
        elif in_use is not None and in_use.holds(file.location):
            kept[KeepReason.IN_HIVE] += 1
        else:
            left.append(file)
    return left


def _can_end(context: OrphanContext, lines: Sequence[ReportedFile], in_use: FilesInUse | None) -> bool:
    """Whether a batch may be deleted: not while it is unknown what Hive reads, nor out of a place of earlier times."""
    if context.relation.hive_name is None:
        return True
    paths = [line.file.location for line in lines]
    return all(context.is_own(one) or (in_use is not None and context.is_there(one)) for one in paths)


def _check(needed: ReachableNames, in_use: FilesInUse | None) -> Check:
    def still(tables: Sequence[Relation], locations: Collection[str]) -> Collection[str]:
        found = needed.look(tables)
        read = {one for one in locations if in_use is not None and in_use.holds(one)}
        return read | {location for location in locations if list_names(location) & found}

    return still


@contextmanager
def _nothing_missing(context: OrphanContext) -> Iterator[None]:
    """A job that has a lease does exist: what is missing is a file that the table stands on."""
    try:
        yield
    except NotFound as error:
        raise Conflict(f"no file of {context.relation.name} is taken for an orphan: {error.message}") from error
