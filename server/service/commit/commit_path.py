"""The commit path: read the pointer, judge, write new metadata, compare and set in one transaction.

Three outcomes, and nothing between them: `commit` returns (it is in the table for ever), raises a CatalogError (it is
not, and the metadata written for it is deleted), or raises CommitUnknown (nobody knows; nothing is deleted).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import random

from catalog.commits.commit_rules import Apply, Rebase, Replay, list_added_snapshots, match_applied, validate_commits
from catalog.errors import (
    CatalogError,
    CommitUnknown,
    Invalid,
    LeaseLost,
    NoSuchTable,
    OtherTable,
    RequirementFailed,
    Unavailable,
)
from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.store_commit import check_new_deletes
from catalog.names import CatalogName, TableName
from catalog.ports.manifests import ManifestLists
from catalog.ports.store import Database, UnitOfWork
from server.service.commit.commit_queue import CommitQueue
from server.service.commit.commit_target import CommitTarget, load_targets
from server.service.commit.contention import Contention
from server.service.commit.dropped_commits import was_applied_before_drop
from server.service.commit.file_locations import CheckedManifests, CommittedFiles
from server.service.commit.idempotency import Idempotency, remember
from server.service.commit.planned_commit import PlannedCommit, plan_commits
from server.service.commit.rebase import plan_rebase
from server.service.commit.transaction import ConcurrentCommit, OnJobCommit, WrittenMetadata, record_commit
from server.service.locations.location_rule import check_moved, has_moved
from server.service.tables.metadata_files import MetadataFiles

MAX_ROUNDS = 30
"""How often a commit whose requirements still hold is tried on a table that other servers are moving."""

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.5
"""Pauses before further tries: each up to twice the one before, of random length, or servers would collide again."""


@contextmanager
def raise_unknown_if_unavailable() -> Iterator[None]:
    """Until it is seen that no earlier try of a request was applied, refusing it would be a guess.

    A repeated request whose first answer was lost finds the database or the storage away: CommitUnknown, not a refusal
    after which its sender would delete files that the table stands on.
    """
    try:
        yield
    except Unavailable as error:
        raise CommitUnknown(f"whether it was applied before cannot be seen: {error.message}") from error


@contextmanager
def raise_unknown_after_commit() -> Iterator[None]:
    """The commit is in the table: what fails from here on is no refusal of it, whatever it is."""
    try:
        yield
    except CatalogError as error:
        raise CommitUnknown(f"it was applied, but the table cannot be read back: {error.message}") from error


InSameTransaction = Callable[[UnitOfWork], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One atomic commit on one or several tables."""

    catalog: CatalogName
    changes: Sequence[TableCommit]
    lease: Lease | None = None
    engine: str | None = None
    idempotency: Idempotency | None = None
    """Under which to remember where the tables' metadata lies now."""
    also: InSameTransaction | None = None
    """What has to become true in the same transaction."""
    follows_hive: bool = False
    """Whether it brings what Hive's side did: a table that is being given back takes nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A table as a commit has left it."""

    name: TableName
    metadata_location: str


@dataclass(frozen=True)
class Committer:
    """Applies commits; safe to use from any number of threads and servers."""

    database: Database
    metadata: MetadataFiles
    manifest_lists: ManifestLists
    on_job_commit: Mapping[JobKind, OnJobCommit] = field(default_factory=dict)
    """What a job's commit brings with it in the same transaction, by kind."""
    commit_queue: CommitQueue = field(default_factory=CommitQueue)
    contention: Contention = field(default_factory=Contention)
    checked: CheckedManifests = field(default_factory=CheckedManifests)

    def commit(self, request: CommitRequest) -> list[Committed]:
        """Apply every change or none; see the module for the outcomes."""
        _check_named_once(request.changes)
        tables = [(request.catalog, change.name) for change in request.changes]
        with self.commit_queue.wait(tables, job=request.lease is not None):
            return self._rounds(request)

    def has_applied(self, catalog: CatalogName, changes: Sequence[TableCommit]) -> bool:
        """Whether the snapshots that these changes bring are, or were, in their tables; NotFound without the tables."""
        if not any(list_added_snapshots(change.updates) for change in changes):
            return False
        with raise_unknown_if_unavailable():
            try:
                targets = load_targets(self.database, self.metadata, catalog, changes, None)
            except NoSuchTable:
                return was_applied_before_drop(self.database, catalog, changes)
        return match_applied([target.facts for target in targets])

    def _rounds(self, request: CommitRequest) -> list[Committed]:
        """One try, and where another server was faster, or has been lately, more of them in turn with it."""
        tables = [f"{request.catalog} {change.name}" for change in request.changes]
        if not any(self.contention.is_contended(table) for table in tables):
            done = self._round(request)
            if done is not None:
                return done
            for table in tables:
                self.contention.note_conflict(table)
        with self.database.lock_commits(tables):
            return self._more_rounds(request)

    def _more_rounds(self, request: CommitRequest) -> list[Committed]:
        for number in range(MAX_ROUNDS):
            done = self._round(request)
            if done is not None:
                return done
            time.sleep(min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS) * random())  # noqa: S311 (a pause)
        raise RequirementFailed(
            f"{request.changes[0].name} is being changed by others too fast; tried {MAX_ROUNDS} times", hint="try again"
        )

    def _round(self, request: CommitRequest) -> list[Committed] | None:
        """One try; None when somebody else has moved a table meanwhile."""
        with self._refusing_what_never_was(request):
            with raise_unknown_if_unavailable():
                targets = load_targets(
                    self.database,
                    self.metadata,
                    request.catalog,
                    request.changes,
                    request.lease,
                    follows_hive=request.follows_hive,
                )
            for target in targets:
                self.contention.note_version_before(
                    f"{request.catalog} {target.relation.name}", target.relation.version
                )
            verdict = validate_commits([target.facts for target in targets])
        if isinstance(verdict, Replay):
            return [_as_it_is(target) for target in targets]
        planned = self._planned(targets, verdict)
        if request.lease is None and not request.follows_hive:
            self._check_stores(targets)
        return self._write_and_move(request, targets, planned)

    def _check_stores(self, targets: Sequence[CommitTarget]) -> None:
        """What an engine brings to a keyed table's store, by its files."""
        for facts in (target.facts for target in targets):
            for snapshot in list_added_snapshots(facts.change.updates) if facts.store is not None else ():
                assert facts.store is not None
                check_new_deletes(facts.store, self.manifest_lists.new_deletes(facts.metadata, snapshot))

    @contextmanager
    def _refusing_what_never_was(self, request: CommitRequest) -> Iterator[None]:
        """A commit whose table is gone may have been applied before: see `dropped_commits`."""
        try:
            yield
        except (NoSuchTable, LeaseLost, OtherTable) as error:
            with raise_unknown_if_unavailable():
                was_applied = was_applied_before_drop(self.database, request.catalog, request.changes)
            if was_applied:
                raise CommitUnknown(f"it was applied, and its table was dropped since: {error.message}") from error
            raise

    def _planned(self, targets: Sequence[CommitTarget], verdict: Rebase | Apply) -> list[PlannedCommit]:
        """LocationRefused before the server reads for a client, or writes, where neither may."""
        if isinstance(verdict, Rebase):
            facts = targets[0].facts
            before, updates = facts.metadata, facts.change.updates
            self._files.check(facts.relation, before, before, updates, reads_lists=False)
            return [plan_rebase(self.manifest_lists, targets[0], verdict.append)]
        planned = [
            commit
            for target, updates in zip(targets, verdict.updates, strict=True)
            for commit in plan_commits(target, updates, now_ms=target.now_ms)
        ]
        _check_moved_once(planned)
        self._check_locations(targets, planned)
        return planned

    def _write_and_move(
        self, request: CommitRequest, targets: Sequence[CommitTarget], planned: Sequence[PlannedCommit]
    ) -> list[Committed] | None:
        written: list[WrittenMetadata] = []
        committed: list[Committed] = []
        try:
            for commit in planned:
                if commit.manifest_list is not None:
                    self.metadata.files.write_new(commit.manifest_list.location, commit.manifest_list.data)
                location = self.metadata.write(commit.after["location"], commit.relation.version + 1, commit.after)
                written.append(WrittenMetadata(commit, location))
            committed = _results(targets, written)
            self._move(request, written, committed)
        except ConcurrentCommit:
            self._discard(planned, written)
            return None
        except CommitUnknown:
            if self._has_moved(written):
                return committed
            raise
        except CatalogError:
            self._discard(planned, written)
            raise
        for moved in (metadata.change.relation for metadata in written):
            self.contention.note_version_after(f"{request.catalog} {moved.name}", moved.version + 1)
        return committed

    @property
    def _files(self) -> CommittedFiles:
        return CommittedFiles(self.database, self.metadata.files, self.manifest_lists, self.checked)

    def _check_locations(self, targets: Sequence[CommitTarget], planned: Sequence[PlannedCommit]) -> None:
        moved = [commit for commit in planned if has_moved(commit.before, commit.after)]
        if moved:
            with self.database.reading() as uow:
                for commit in moved:
                    check_moved(uow, self.metadata.files, commit.relation, commit.before, commit.after)
        updates = {target.relation.id: target.facts.change.updates for target in targets}
        for commit in planned:
            self._files.check(commit.relation, commit.before, commit.after, updates.get(commit.relation.id, ()))

    def _move(self, request: CommitRequest, written: Sequence[WrittenMetadata], committed: Sequence[Committed]) -> None:
        with self.database.writing() as uow:
            record_commit(
                uow,
                self.metadata.files,
                written,
                lease=request.lease,
                engine=request.engine,
                on_job_commit=self.on_job_commit,
            )
            if request.also is not None:
                request.also(uow)
            remember(uow, request.idempotency, [table.metadata_location for table in committed])

    def _has_moved(self, written: Sequence[WrittenMetadata]) -> bool:
        """Whether a commit without an answer is seen to have landed; not seeing it proves nothing."""
        try:
            with self.database.reading() as uow:
                now = [uow.relations.get(metadata.change.relation.id).metadata_location for metadata in written]
        except CatalogError:
            return False
        return now == [metadata.location for metadata in written]

    def _discard(self, planned: Sequence[PlannedCommit], written: Sequence[WrittenMetadata]) -> None:
        for metadata in written:
            self.metadata.discard(metadata.location)
        for change in planned:
            if change.manifest_list is not None:
                self.metadata.discard(change.manifest_list.location)


def _check_named_once(changes: Sequence[TableCommit]) -> None:
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise Invalid("a transaction names a table twice", hint="put all its updates into one change")


def _check_moved_once(planned: Sequence[PlannedCommit]) -> None:
    """A schema change on one store of a keyed table brings the other with it."""
    ids = [commit.relation.id for commit in planned]
    if len(set(ids)) < len(ids):
        raise Invalid("a transaction changes the schema of one store of a keyed table and commits to the other too")


def _as_it_is(target: CommitTarget) -> Committed:
    location = target.relation.metadata_location
    assert location is not None  # its metadata was read from there
    return Committed(name=target.relation.name, metadata_location=location)


def _results(targets: Sequence[CommitTarget], written: Sequence[WrittenMetadata]) -> list[Committed]:
    moved = {metadata.change.relation.id: metadata.location for metadata in written}
    return [
        Committed(name=target.relation.name, metadata_location=moved[target.relation.id])
        if target.relation.id in moved
        else _as_it_is(target)
        for target in targets
    ]
