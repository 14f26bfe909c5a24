"""The commit path: read the pointer, validate, write new metadata, then compare and set in one transaction.

A commit has exactly three outcomes. `commit` returns: the commit is in the table for ever. It raises a CatalogError:
the commit is not in the table, and the server has deleted its metadata. It raises CommitUnknown: nobody knows, and the
server deletes nothing.
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
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.manifests import ManifestLists
from catalog.ports.store import Database, UnitOfWork
from server.service.commit.commit_queue import CommitQueue
from server.service.commit.commit_target import CommitTarget, load_targets
from server.service.commit.contention import Contention
from server.service.commit.earlier_commits import find_earlier_tables, follow_renames
from server.service.commit.fenced_commits import count_fenced_commits
from server.service.commit.file_locations import CheckedManifests, CommittedFiles
from server.service.commit.idempotency import Idempotency, remember
from server.service.commit.planned_commit import PlannedCommit, plan_commits
from server.service.commit.rebase import plan_rebase
from server.service.commit.transaction import ConcurrentCommit, OnJobCommit, WrittenMetadata, record_commit
from server.service.locations.location_rule import check_moved, has_moved
from server.service.tables.metadata_files import MetadataFiles

MAX_ROUNDS = 30
"""How often the server tries a valid commit on a table to which other servers commit."""

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.5
"""Pauses before further tries: random, and up to twice as long each time, so that servers do not collide again."""


@contextmanager
def raise_unknown_if_unavailable() -> Iterator[None]:
    """Raise CommitUnknown instead of Unavailable, while an earlier try of the same request may have been applied.

    After a refusal the client deletes its files. If the database or storage fails before the server can check for an
    earlier try, those files may already be part of the table.
    """
    try:
        yield
    except Unavailable as error:
        raise CommitUnknown(
            f"the server cannot check whether it has applied this commit before: {error.message}"
        ) from error


@contextmanager
def raise_unknown_after_commit() -> Iterator[None]:
    """Raise CommitUnknown for any error after the commit: no error may look like a refusal of an applied commit."""
    try:
        yield
    except CatalogError as error:
        raise CommitUnknown(f"the server has applied the commit, but cannot read the table: {error.message}") from error


InSameTransaction = Callable[[UnitOfWork], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One atomic commit on one or several tables."""

    catalog: CatalogName
    changes: Sequence[TableCommit]
    lease: Lease | None = None
    engine: str | None = None
    idempotency: Idempotency | None = None
    """The key under which the server stores the new metadata locations, to answer a repeated request."""
    keyed_id: RelationId | None = None
    """The keyed table under whose name the commit came; `changes` name its stores."""
    first: InSameTransaction | None = None
    """Checks and locks at the beginning of the transaction of the commit."""
    also: InSameTransaction | None = None
    """Further writes for the transaction of the commit."""
    follows_hive: bool = False
    """Whether the commit brings changes from Hive; during a downgrade a table accepts only these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A table after a commit. After one under the name of a keyed table, `relation_id` is the keyed table's."""

    relation_id: RelationId
    name: TableName
    metadata_location: str


@dataclass(frozen=True)
class Committer:
    """Applies commits; any number of threads and servers may use it at once."""

    database: Database
    metadata: MetadataFiles
    manifest_lists: ManifestLists
    on_job_commit: Mapping[JobKind, OnJobCommit] = field(default_factory=dict)
    """Further writes for the transaction of a job's commit, by kind of job."""
    commit_queue: CommitQueue = field(default_factory=CommitQueue)
    contention: Contention = field(default_factory=Contention)
    checked: CheckedManifests = field(default_factory=CheckedManifests)

    def commit(self, request: CommitRequest) -> list[Committed]:
        """Apply all changes or none; the module docstring describes the outcomes."""
        _check_named_once(request.changes)
        tables = [(request.catalog, change.name) for change in request.changes]
        with self.commit_queue.wait(tables, job=request.lease is not None):
            return self._commit_in_rounds(request)

    def has_applied(self, catalog: CatalogName, changes: Sequence[TableCommit]) -> bool:
        """Whether the new snapshots of these changes are, or were, in their tables; False for missing tables."""
        if not any(list_added_snapshots(change.updates) for change in changes):
            return False
        with raise_unknown_if_unavailable():
            try:
                targets = load_targets(self.database, self.metadata, catalog, changes, None)
            except NoSuchTable:
                with self.database.reading() as uow:
                    return bool(find_earlier_tables(uow, catalog, changes))
        return match_applied([target.facts for target in targets])

    def find_repeated(self, catalog: CatalogName, changes: Sequence[TableCommit]) -> list[Committed] | None:
        """The tables of a commit that was applied before they were renamed, as they are now; None for other commits.

        CommitUnknown if the commit was applied, and one of its tables is gone.
        """
        with raise_unknown_if_unavailable(), self.database.reading() as uow:
            tables = find_earlier_tables(uow, catalog, changes)
            renamed = follow_renames(uow, changes, tables)
        if not tables:
            return None
        if renamed is not None:
            with raise_unknown_after_commit():
                targets = load_targets(self.database, self.metadata, catalog, renamed, None)
            if match_applied([target.facts for target in targets]):
                keyed = {name for name, table in tables.items() if table.is_keyed}
                return [
                    _build_unchanged(target, is_keyed=change.name in keyed)
                    for change, target in zip(changes, targets, strict=True)
                ]
        raise CommitUnknown("the server applied the commit, and then somebody dropped its table")

    def _commit_in_rounds(self, request: CommitRequest) -> list[Committed]:
        """Try once; if another server is faster, or was recently, take turns with it under the database's lock."""
        tables = [f"{request.catalog} {change.name}" for change in request.changes]
        if not any(self.contention.is_contended(table) for table in tables):
            committed = self._try_once(request)
            if committed is not None:
                return committed
            for table in tables:
                self.contention.note_conflict(table)
        with self.database.lock_commits(tables):
            return self._retry_in_turn(request)

    def _retry_in_turn(self, request: CommitRequest) -> list[Committed]:
        for number in range(MAX_ROUNDS):
            committed = self._try_once(request)
            if committed is not None:
                return committed
            time.sleep(min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS) * random())  # noqa: S311 (a pause)
        raise RequirementFailed(
            f"other commits change {request.changes[0].name} too fast; the server tried {MAX_ROUNDS} times",
            hint="try again",
        )

    def _try_once(self, request: CommitRequest) -> list[Committed] | None:
        """Try to commit once; None when another commit has changed a table meanwhile."""
        try:
            targets = self._load_targets(request)
            with count_fenced_commits(request.catalog, targets):
                verdict = validate_commits([target.facts for target in targets])
        except (NoSuchTable, LeaseLost, OtherTable):
            repeated = self.find_repeated(request.catalog, request.changes)
            if repeated is None:
                raise
            return repeated
        if isinstance(verdict, Replay):
            return [_build_unchanged(target) for target in targets]
        commits = self._plan_commits(targets, verdict)
        if request.lease is None and not request.follows_hive:
            self._check_stores(targets)
        return self._write_and_move(request, targets, commits)

    def _load_targets(self, request: CommitRequest) -> list[CommitTarget]:
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
            self.contention.note_version_before(f"{request.catalog} {target.relation.name}", target.relation.version)
        return targets

    def _check_stores(self, targets: Sequence[CommitTarget]) -> None:
        """Check the delete files that an engine adds to a store of a keyed table."""
        for facts in (target.facts for target in targets):
            for snapshot in list_added_snapshots(facts.change.updates) if facts.store is not None else ():
                assert facts.store is not None
                check_new_deletes(facts.store, self.manifest_lists.new_deletes(facts.metadata, snapshot))

    def _plan_commits(self, targets: Sequence[CommitTarget], verdict: Rebase | Apply) -> list[PlannedCommit]:
        """Plan the new metadata; raises LocationRefused before the server reads or writes at a refused location."""
        if isinstance(verdict, Rebase):
            facts = targets[0].facts
            before, updates = facts.metadata, facts.change.updates
            self._committed_files.check(facts.relation, before, before, updates, reads_lists=False)
            return [plan_rebase(self.manifest_lists, targets[0], verdict.append)]
        commits = [
            commit
            for target, updates in zip(targets, verdict.updates, strict=True)
            for commit in plan_commits(target, updates, now_ms=target.now_ms)
        ]
        _check_moved_once(commits)
        self._check_locations(targets, commits)
        return commits

    def _write_and_move(
        self, request: CommitRequest, targets: Sequence[CommitTarget], commits: Sequence[PlannedCommit]
    ) -> list[Committed] | None:
        written: list[WrittenMetadata] = []
        committed: list[Committed] = []
        try:
            for commit in commits:
                if commit.manifest_list is not None:
                    self.metadata.files.write_new(commit.manifest_list.location, commit.manifest_list.data)
                location = self.metadata.write(commit.after["location"], commit.relation.version + 1, commit.after)
                written.append(WrittenMetadata(commit, location))
            committed = _build_results(targets, written)
            self._move(request, written, committed)
        except ConcurrentCommit:
            self._discard(commits, written)
            return None
        except CommitUnknown:
            if self._has_moved(written):
                return committed
            raise
        except CatalogError:
            self._discard(commits, written)
            raise
        for moved in (metadata.change.relation for metadata in written):
            self.contention.note_version_after(f"{request.catalog} {moved.name}", moved.version + 1)
            if moved.metadata_location is not None:
                self.metadata.forget(moved.metadata_location)
        return committed

    @property
    def _committed_files(self) -> CommittedFiles:
        return CommittedFiles(self.database, self.metadata.files, self.manifest_lists, self.checked)

    def _check_locations(self, targets: Sequence[CommitTarget], commits: Sequence[PlannedCommit]) -> None:
        moved = [commit for commit in commits if has_moved(commit.before, commit.after)]
        if moved:
            with self.database.reading() as uow:
                for commit in moved:
                    check_moved(uow, self.metadata.files, commit.relation, commit.before, commit.after)
        updates = {target.relation.id: target.facts.change.updates for target in targets}
        for commit in commits:
            self._committed_files.check(
                commit.relation, commit.before, commit.after, updates.get(commit.relation.id, ())
            )

    def _move(self, request: CommitRequest, written: Sequence[WrittenMetadata], committed: Sequence[Committed]) -> None:
        with self.database.writing() as uow:
            if request.first is not None:
                request.first(uow)
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
            keyed = [] if request.keyed_id is None else [str(request.keyed_id)]
            remember(uow, request.idempotency, [committed[0].metadata_location, *keyed])

    def _has_moved(self, written: Sequence[WrittenMetadata]) -> bool:
        """Whether a commit with unknown outcome is visibly in the tables; False proves nothing."""
        try:
            with self.database.reading() as uow:
                now = [uow.relations.get(metadata.change.relation.id).metadata_location for metadata in written]
        except CatalogError:
            return False
        return now == [metadata.location for metadata in written]

    def _discard(self, commits: Sequence[PlannedCommit], written: Sequence[WrittenMetadata]) -> None:
        for metadata in written:
            self.metadata.discard(metadata.location)
        for commit in commits:
            if commit.manifest_list is not None:
                self.metadata.discard(commit.manifest_list.location)


def _check_named_once(changes: Sequence[TableCommit]) -> None:
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise Invalid("the transaction names a table twice", hint="put all updates of the table into one change")


def _check_moved_once(commits: Sequence[PlannedCommit]) -> None:
    """Raise Invalid when two commits change one table: a schema change on one store also changes the other store."""
    ids = [commit.relation.id for commit in commits]
    if len(set(ids)) < len(ids):
        raise Invalid(
            "the transaction changes the schema of one store of a keyed table, and also commits to the other store",
            hint="change the schema in a transaction of its own",
        )


def _build_unchanged(target: CommitTarget, *, is_keyed: bool = False) -> Committed:
    location = target.relation.metadata_location
    assert location is not None  # its metadata was read from there
    relation_id = target.keyed.relation_id if is_keyed and target.keyed else target.relation.id
    return Committed(relation_id=relation_id, name=target.relation.name, metadata_location=location)


def _build_results(targets: Sequence[CommitTarget], written: Sequence[WrittenMetadata]) -> list[Committed]:
    moved = {metadata.change.relation.id: metadata.location for metadata in written}
    return [
        Committed(
            relation_id=target.relation.id,
            name=target.relation.name,
            metadata_location=moved[target.relation.id],
        )
        if target.relation.id in moved
        else _build_unchanged(target)
        for target in targets
    ]
