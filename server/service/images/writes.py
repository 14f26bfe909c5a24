"""Commits to a keyed table under its own name: rows become changes (docs/protocols.md, rules 5.7, 5.8, 5.10 and 5.11).

The change store takes the engine's data files as they are; only manifests are written, the keys of deleted
rows, and the visible rows of files that have lost some.
The commit keeps the engine's snapshot id, so a request that is sent again is recognized like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from catalog.commits.image_write import SentSnapshot, align_spec, find_sent_snapshot, identify_commit
from catalog.errors import (
    CatalogError,
    CommitRefused,
    DuplicateBatch,
    Invalid,
    NotFound,
    RequirementFailed,
    Unavailable,
)
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id
from catalog.iceberg.table import apply_updates, check_requirements
from catalog.keyed.alter import translate_requirements
from catalog.keyed.spec import BATCH_ID, CHANGE, WRITER_ID
from catalog.keyed.streams import list_commits_since, read_checkpoint
from catalog.names import CatalogName, TableName
from catalog.ports.images import SentFile, SentFiles, SentRows
from catalog.ports.store import UnitOfWork
from server.service.commit.commit_path import CommitRequest, Committer, raise_unknown_if_unavailable
from server.service.images.pair import Pair, build_image_rule, read_pair
from server.service.images.sent_rows import SentRowReader, check_operations
from server.service.locations.location_rule import build_file_rule
from server.service.tables.keyed_tables import KeyedTables

MAX_TRIES = 20
"""The number of tries if the change store moves meanwhile."""
COMPARED_COMMITS = 10
"""A connector's commit is compared with so many of the latest that it may not have seen."""
_HEAD = "assert-ref-snapshot-id"


@dataclass(frozen=True)
class ImageWrites:
    """Commits of engines under the names of keyed tables."""

    tables: KeyedTables
    committer: Committer
    files: SentFiles
    rows: SentRowReader

    def commit(self, request: CommitRequest) -> bool:
        """Apply a commit that changes a keyed table's data; False when the commit changes none.

        Raises Invalid for rows or commits that a keyed table does not take, and what `Committer.commit` raises.
        """
        (sent_change,) = request.changes
        sent = find_sent_snapshot(sent_change.name, sent_change.updates)
        if sent is None:
            return False
        store = TableName(sent_change.name.as_namespace, CHANGE)
        as_sent = TableCommit(name=store, requirements=[], updates=_select_head(sent, sent_change.updates))
        try:
            self._commit(request, sent, as_sent)
        except CatalogError as error:
            # After a refusal the engine deletes its files, which another try of the same request may have committed.
            if self.committer.has_applied(request.catalog, [as_sent]):
                return True
            if isinstance(error, NotFound):
                raise Invalid(f"a file of the commit is gone: {error.message}") from error
            raise
        return True

    def stop(self) -> None:
        """End the child process that reads rows."""
        self.rows.checker.stop()

    def _commit(self, request: CommitRequest, sent: SentSnapshot, as_sent: TableCommit) -> None:
        files: Sequence[SentFile] = ()
        rows: SentRows | None = None
        try:
            for _ in range(MAX_TRIES):
                if self.committer.has_applied(request.catalog, [as_sent]):
                    break
                with raise_unknown_if_unavailable():
                    pair, now_ms = self._read_pair(request.catalog, request.changes[0].name)
                self._check_requirements(pair, request.changes[0].requirements)
                if rows is None:
                    files = self._list(pair, sent)
                    if self._has_stream_committed(pair, sent, files):
                        return
                    rows = self.rows.read_rows(pair, sent, files)
                self._check_connector(pair, sent, files)
                target = _Target(pair, as_sent.name, now_ms, identify_commit(sent, _name_added(files)))
                if self._try_once(request, sent, target, self._add_deletes(pair, sent, files, rows)):
                    return
            else:
                raise RequirementFailed(
                    f"other commits change {as_sent.name} too fast; the server tried {MAX_TRIES} times"
                )
        except CatalogError:  # which an unknown outcome is not: its files stay
            self._discard(rows.written if rows else ())
            raise
        self._discard(rows.written if rows else ())

    def _add_deletes(self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile], rows: SentRows) -> SentRows:
        deletes = self.rows.write_deletes(pair, sent, files)
        return rows if deletes is None else replace(rows, deletes=deletes, depends_on_image=True)

    def _has_stream_committed(self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]) -> bool:
        """Whether a stream sends files again that it has committed in another snapshot (docs/protocols.md, rule 5.11).

        They may have been deleted since.
        """
        named = identify_commit(sent, _name_added(files))
        with raise_unknown_if_unavailable(), self.tables.database.reading() as uow:
            store = pair.pin.change_store.id
            return bool(named) and uow.events.find_batch(store, named[WRITER_ID], named[BATCH_ID]) is not None

    def _check_connector(self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]) -> None:
        """Refuse files that another coordinator of the same connector has committed since this one read the table.

        The connector then compares its offsets with the table's, and leaves these files out (docs/protocols.md, rule
        5.11). Raises RequirementFailed. Snapshots that the sent one descends from cost no reading.
        """
        checkpoint = read_checkpoint(sent.summary)
        if checkpoint is None or checkpoint.number is not None:
            return
        with raise_unknown_if_unavailable(), self.tables.database.reading() as uow:
            read_id = sent.read_id
            read = None if read_id is None else uow.images.find_snapshot(pair.relation.id, read_id, uow.now())
            rule = build_file_rule(
                uow, self.tables.database, self.tables.metadata.files, pair.pin.change_store, pair.pin.change
            )
        since = -1 if read is None else read.change_sequence
        added = set(_name_added(files))
        for snapshot in islice(list_commits_since(checkpoint.stream, pair.pin.change, since), COMPARED_COMMITS):
            if not added.isdisjoint(_name_added(self.files.list_files(pair.pin.change, snapshot, rule))):
                raise RequirementFailed(
                    f"Requirement failed: another coordinator of {checkpoint.stream} has committed to "
                    f"{pair.relation.name} since this one has read its offsets"
                )

    def _read_pair(self, catalog: CatalogName, name: TableName) -> tuple[Pair, int]:
        with self.tables.database.reading() as uow:
            return read_pair(uow, self.tables, catalog, name), int(uow.now().timestamp() * 1000)

    @staticmethod
    def _check_requirements(pair: Pair, requirements: Sequence[Json]) -> None:
        """Check all but that nobody else has committed: an upsert does not depend on what the engine has read."""
        of_base = translate_requirements(pair.relation.id, requirements)
        check_requirements(pair.pin.base, [requirement for requirement in of_base if requirement.get("type") != _HEAD])

    def _list(self, pair: Pair, sent: SentSnapshot) -> Sequence[SentFile]:
        with self.tables.database.reading() as uow:
            rule = build_image_rule(uow, self.tables.database, self.tables.metadata.files, pair.pin)
        commits = [self.files.list_files(pair.pin.base, snapshot.as_sent(), rule) for snapshot in sent.chain]
        check_operations(pair.relation.name, commits)
        return _join_files(commits)

    def _try_once(self, request: CommitRequest, sent: SentSnapshot, target: _Target, rows: SentRows) -> bool:
        """Append to the change store as it is now; False when another commit was faster."""
        pin = target.pair.pin
        aligning = align_spec(pin.base, pin.change)
        change = apply_updates(pin.change, aligning, now_ms=target.now_ms, previous_location=None)
        summary = {**sent.describe(), **target.batch}
        appended = self.files.append(change, rows, snapshot_id=sent.id, now_ms=target.now_ms, summary=summary)
        commit = TableCommit(
            name=target.store, requirements=appended.requirements(), updates=[*aligning, *appended.updates()]
        )
        own = [*appended.written, *(file.stats.location for file in rows.deletes if rows.depends_on_image)]
        try:
            also = target.check_base if rows.depends_on_image else None
            self.committer.commit(replace(request, changes=[commit], keyed_id=target.pair.relation.id, also=also))
        except (RequirementFailed, CommitRefused):
            self._discard(own)
            if self._has_moved(request.catalog, target.pair):
                return False
            raise
        except DuplicateBatch:  # another try of the stream's commit, under another snapshot id, was faster
            self._discard([*own, *rows.written])
            if target.batch:
                return True
            raise
        except CatalogError:
            self._discard(own)
            raise
        return True

    def _has_moved(self, catalog: CatalogName, pair: Pair) -> bool:
        with raise_unknown_if_unavailable():
            now, _ = self._read_pair(catalog, pair.relation.name)
        return _describe_heads(now) != _describe_heads(pair)

    def _discard(self, locations: Sequence[str]) -> None:
        with suppress(Unavailable):  # orphan removal deletes them
            self.files.discard(locations)


@dataclass(frozen=True, slots=True)
class _Target:
    """The stores at one moment, the name of the change store, and the time in epoch milliseconds.

    `batch` goes into the summary: it identifies the commit of a stream.
    """

    pair: Pair
    store: TableName
    now_ms: int
    batch: Mapping[str, str]

    def check_base(self, uow: UnitOfWork) -> None:
        """RequirementFailed when base has changed since the deletes were judged, in the transaction of the commit."""
        base = self.pair.pin.base_store
        if uow.relations.get(base.id).metadata_location != base.metadata_location:
            raise RequirementFailed(f"{self.pair.relation.name} has changed while the statement was committed")


def _select_head(sent: SentSnapshot, updates: Sequence[Json]) -> list[Json]:
    """The updates without the snapshots before the head: the change store gets one snapshot, with the head's id."""
    before = {snapshot.id for snapshot in sent.before}
    return [update for update in updates if (update.get("snapshot") or {}).get("snapshot-id") not in before]


def _join_files(commits: Sequence[Sequence[SentFile]]) -> list[SentFile]:
    """What several snapshots add and remove together."""
    added = {file.location for files in commits for file in files if not file.is_removed}
    removed = {file.location for files in commits for file in files if file.is_removed}
    return [file for files in commits for file in files if file.location not in added & removed]


def _name_added(files: Sequence[SentFile]) -> list[str]:
    return [file.location for file in files if not file.is_removed]


def _describe_heads(pair: Pair) -> tuple[int | None, str | None]:
    return current_snapshot_id(pair.pin.change), pair.pin.base_store.metadata_location
