"""Checks the orphans that an optimizer proposes, and moves the confirmed ones into quarantine.

The order makes it safe. The optimizer lists the files first and proposes orphans to the server. Only then does the
server read the table's metadata, so it sees every file that was committed during the listing. The server checks each
proposed file itself, and trusts no result of the optimizer.
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
from catalog.hive.superseded_directories import FilesInUse
from catalog.jobs.job import Job, JobId
from catalog.jobs.leases import Lease
from catalog.names import RelationId
from catalog.ports.orphans import NamedFiles, QuarantineFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.orphan_removal import (
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
from firn.protocol.orphans import BatchState
from firn.protocol.tasks.orphans import ListedTable, OrphansTask
from server.service.orphans.context import OrphanContext, load_context, load_leased_context
from server.service.orphans.published_locations import HiveReaders
from server.service.orphans.quarantine import Check, Quarantine
from server.service.orphans.reachable_files import ReachableNames, explain_foreign_metadata
from server.service.planning.policies import load_stored_policy
from server.service.tables.metadata_files import MetadataFiles

_ENDING = (BatchState.ASIDE, BatchState.NOTED, BatchState.DELETING)
JOBS_REMEMBERED = 8
"""The server remembers for this many jobs which metadata files it has read."""
BATCHES_PER_REQUEST = 100
"""Quarantine batches that one request ends; the server reads the table's manifests once for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedBatch:
    """Result of a proposal: the removed files, and how many files stay by reason."""

    quarantined: Sequence[SeenFile] = ()
    """Files that the server has moved to quarantine or noted; in a dry run, files that it would take."""
    kept: Mapping[KeepReason, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFiles:
    """Files that the server has deleted for good after their time in quarantine."""

    deleted_files: int = 0
    deleted_bytes: int = 0
    next_cursor: str | None = None
    """Cursor of the next batches; None when the server has handled all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetails:
    """A batch with its report, for users."""

    batch: OrphanBatch
    reason: str
    lines: Sequence[ReportedFile]
    deleted_after: datetime | None


@dataclass(frozen=True)
class Orphans:
    """The server's part of orphan jobs; several servers may use it at once."""

    database: Database
    metadata: MetadataFiles
    files: QuarantineFiles
    named: NamedFiles
    quarantine: Quarantine
    readers: HiveReaders
    _proven: LRUCache[JobId, set[str]] = field(default_factory=lambda: LRUCache(JOBS_REMEMBERED))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def task(self, uow: UnitOfWork, job: Job, _relation: Relation) -> OrphansTask:
        """The task for the optimizer; raises Conflict when the table may not own its locations."""
        context = load_context(uow, self.metadata, job)
        before = compute_cutoff(context.now, context.now, context.lease_began, context.min_age)
        published = context.published
        return OrphansTask(
            tables=[
                ListedTable(parts=[*table.name.namespace, table.name.name], location=table.location)
                for table in context.tables
            ],
            images=context.images,
            published=None if published is None or published.shared else published.location,
            unrepresentable=None if published is None else published.shared,
            before_ms=int(before.timestamp() * 1000),
            dry_run=context.dry_run,
            requested=job.was_requested,
        )

    def take(self, lease: Lease, proposed: Sequence[str], metadata_files: Sequence[str]) -> QuarantinedBatch:
        """Move the proposed files that nothing needs to quarantine.

        `metadata_files` are all files outside the tables' `metadata` directories that look like metadata. Raises
        LeaseLost when the lease has ended, and Conflict without proof that the table owns its locations.
        """
        context = self._load_context(lease)
        with _raise_conflict_if_missing(context):
            self._prove_ownership(context, metadata_files)
            files, kept = self._filter_old(context, proposed)
            in_use = self._find_files_in_use(context, files)
            files = _filter_by_hive(context, files, in_use, kept)
            reachable = ReachableNames(self.database, self.metadata, self.named, _list_file_names(files))
            needed = reachable.find(context.tables)
            orphans = [file for file in files if not list_names(file.location) & needed]
            kept[KeepReason.NEEDED] += len(files) - len(orphans)
            returned = [] if context.dry_run else self._set_aside(lease, context, orphans, reachable, in_use)
        return QuarantinedBatch(quarantined=[file for file in orphans if file.location not in returned], kept=+kept)

    def _set_aside(
        self,
        lease: Lease,
        context: OrphanContext,
        files: Sequence[SeenFile],
        reachable: ReachableNames,
        in_use: FilesInUse | None,
    ) -> Collection[str]:
        """Take the files, and return the locations of those that went back at once because a commit needs them."""
        for moves in (True, False):
            movable = [file for file in files if self.files.can_move(file.location, context.quarantine_root) is moves]
            for batch in split_batches(movable):
                self.quarantine.take(lease, context, batch, moves=moves, needed=_build_check(reachable, in_use))
        return self._restore_needed(context, _build_check(reachable, self._find_files_in_use(context, files)), files)

    def end_overdue(self, lease: Lease, cursor: str | None = None) -> DeletedFiles:
        """Delete quarantined files whose time is over, up to BATCHES_PER_REQUEST batches; see `next_cursor`.

        First it repairs batches that a dead server has left unfinished. A file that a table needs after all goes back,
        no matter how long it was in quarantine.
        """
        context = self._load_context(lease)
        if context.dry_run:
            return DeletedFiles()
        with _raise_conflict_if_missing(context):
            self._prove_ownership(context, ())
            if cursor is None:
                self.quarantine.recover(context.relation.id)
            with self.database.reading() as uow:
                page = uow.orphans.list(
                    relation_id=context.relation.id, states=_ENDING, limit=BATCHES_PER_REQUEST, cursor=cursor
                )
            return replace(self._end_batches(lease, context, page.items), next_cursor=page.next_cursor)

    def _end_batches(self, lease: Lease, context: OrphanContext, batches: Sequence[OrphanBatch]) -> DeletedFiles:
        reports = self.quarantine.load_reports(batches)
        batches = [batch for batch in batches if batch.id in reports]
        files = [line.file for batch in batches for line in reports[batch.id] if line.file.location not in batch.kept]
        in_use = self._find_files_in_use(context, files)
        check = _build_check(ReachableNames(self.database, self.metadata, self.named, _list_file_names(files)), in_use)
        self._restore_needed(context, check, files)
        total = DeletedFiles()
        for batch in batches:
            if not _can_end(context, reports[batch.id], in_use):
                continue
            if batch.state is BatchState.DELETING or context.now - batch.taken_at >= context.quarantine_period:
                deleted = self.quarantine.delete(lease, context, batch, check)
                total = DeletedFiles(
                    deleted_files=total.deleted_files + deleted.files, deleted_bytes=total.deleted_bytes + deleted.bytes
                )
        return total

    def describe(self, batches: Sequence[OrphanBatch]) -> list[BatchDetails]:
        """Batches with their reports; a batch whose report is missing has no lines."""
        with self.database.reading() as uow:
            periods = {
                relation_id: _load_quarantine_period(uow, relation_id)
                for relation_id in {batch.relation_id for batch in batches}
            }
        return [self._describe_batch(batch, periods[batch.relation_id]) for batch in batches]

    def _describe_batch(self, batch: OrphanBatch, period: timedelta | None) -> BatchDetails:
        try:
            reason, lines = self.quarantine.load_reason(batch), self.quarantine.load_report(batch)
        except NotFound:
            reason, lines = "", []
        ends = period is not None and batch.state in (BatchState.ASIDE, BatchState.NOTED)
        return BatchDetails(
            batch=batch, reason=reason, lines=lines, deleted_after=batch.taken_at + period if period and ends else None
        )

    def _load_context(self, lease: Lease) -> OrphanContext:
        with self.database.reading() as uow:
            return load_leased_context(uow, self.metadata, lease)

    def _prove_ownership(self, context: OrphanContext, metadata_files: Sequence[str]) -> None:
        with self._lock:
            proven = self._proven.setdefault(context.job.id, set())
        reason = explain_foreign_metadata(self.metadata, self.files, context.tables, metadata_files, proven)
        if reason is not None:
            raise Conflict(
                f"the server removes no orphans of {context.relation.name}: {reason}",
                hint="see docs/self-optimizing.md, Deleting safely",
            )

    def _filter_old(
        self, context: OrphanContext, proposed: Sequence[str]
    ) -> tuple[list[SeenFile], Counter[KeepReason]]:
        directories = [normalize_location(location) for location in context.candidate_locations]
        cutoff = self._compute_cutoff(context)
        with self.database.reading() as uow:
            restored = set(uow.orphans.find_restored(context.relation.id))
        noted = self.quarantine.list_noted(context.relation.id)
        kept: Counter[KeepReason] = Counter()
        files: list[SeenFile] = []
        unique = list(dict.fromkeys(proposed))
        for location, file in zip(unique, self.files.inspect(unique), strict=True):
            reason = find_keep_reason(file, directories, cutoff)
            if reason is None and not any(self.files.is_below(location, root) for root in context.candidate_locations):
                reason = KeepReason.ELSEWHERE
            if reason is None and location in restored:
                reason = KeepReason.PUT_BACK
            if reason is None and file is not None and location in noted and file.same_as(noted[location]):
                reason = KeepReason.NOTED
            if reason is not None or file is None:
                kept[reason or KeepReason.GONE] += 1
            else:
                files.append(file)
        return files, kept

    def _compute_cutoff(self, context: OrphanContext) -> datetime:
        """The time before which a file is old enough, by the database's clock or the store's, whichever is earlier."""
        store_now = self.files.clock(context.job_directory)
        if store_now is None:
            raise Conflict(
                f"the server removes no orphans of {context.relation.name}: the store does not say how old a file is"
            )
        return compute_cutoff(context.now, store_now, context.lease_began, context.min_age)

    def _find_files_in_use(self, context: OrphanContext, files: Sequence[SeenFile]) -> FilesInUse | None:
        """The files that Hive may read; None when the server does not know, or when no file lies where Hive reads."""
        if context.relation.hive_name is None or all(context.is_own(file.location) for file in files):
            return None
        return self.readers.find_files_in_use(context.relation)

    def _restore_needed(self, context: OrphanContext, check: Check, files: Sequence[SeenFile]) -> Collection[str]:
        """Return the files to their place that a commit or Hive has begun to use while the server moved them."""
        with self.database.reading() as uow:
            tables = [uow.relations.get(table.id) for table in context.tables]
        needed = check(tables, [file.location for file in files])
        return self.quarantine.restore(context.relation.id, paths=needed) if needed else []


def _list_file_names(files: Sequence[SeenFile]) -> set[str]:
    return {name for file in files for name in list_names(file.location)}


def _load_quarantine_period(uow: UnitOfWork, relation_id: RelationId) -> timedelta | None:
    """How long a table's files stay in quarantine; None for a table that is gone: its files stay for ever."""
    try:
        return cast("timedelta", load_stored_policy(uow, uow.relations.get(relation_id))["firn.orphans.quarantine"])
    except NotFound:
        return None


def _filter_by_hive(
    context: OrphanContext, files: Sequence[SeenFile], in_use: FilesInUse | None, kept: Counter[KeepReason]
) -> list[SeenFile]:
    """Remove the files that Hive may read, and count them in `kept`.

    Without knowledge of Hive's readers (`in_use` is None), Hive may read every file in the published location.
    """
    orphans = []
    for file in files:
        if in_use is None and not context.is_own(file.location):
            kept[KeepReason.HIVE_UNKNOWN] += 1
        elif in_use is not None and in_use.holds(file.location):
            kept[KeepReason.IN_HIVE] += 1
        else:
            orphans.append(file)
    return orphans


def _can_end(context: OrphanContext, lines: Sequence[ReportedFile], in_use: FilesInUse | None) -> bool:
    """Whether the server may delete a batch of a linked table.

    It may not while it does not know what Hive reads, nor when a file lies in a former location of the table.
    """
    if context.relation.hive_name is None:
        return True
    paths = [line.file.location for line in lines]
    return all(context.is_own(path) or (in_use is not None and context.is_candidate_location(path)) for path in paths)


def _build_check(reachable: ReachableNames, in_use: FilesInUse | None) -> Check:
    def find_needed(tables: Sequence[Relation], locations: Collection[str]) -> Collection[str]:
        names = reachable.find(tables)
        read_by_hive = {location for location in locations if in_use is not None and in_use.holds(location)}
        return read_by_hive | {location for location in locations if list_names(location) & names}

    return find_needed


@contextmanager
def _raise_conflict_if_missing(context: OrphanContext) -> Iterator[None]:
    """Turn NotFound into Conflict: the job exists, so NotFound means that a file of the table is missing."""
    try:
        yield
    except NotFound as error:
        raise Conflict(f"the server removes no orphans of {context.relation.name}: {error.message}") from error
