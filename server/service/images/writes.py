"""Appends to a keyed table under its own name: the rows become upserts (docs/protocols.md, rule 5.7).

The change store takes the engine's data files as they are; only manifests are written. The commit keeps the engine's
snapshot id, so a request that is sent again is recognized like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from catalog.commits.image_write import SentSnapshot, align_spec, find_sent_snapshot
from catalog.errors import (
    CatalogError,
    CommitRefused,
    CommitUnknown,
    Invalid,
    LocationRefused,
    NotFound,
    RequirementFailed,
    Unavailable,
)
from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id
from catalog.iceberg.table import apply_updates, check_requirements
from catalog.keyed.alter import translate_requirements
from catalog.keyed.spec import CHANGE
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.names import CatalogName, TableName
from catalog.ports.images import KeyChecker, SentFile, SentFiles
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.image import KeyReport, KeysTask
from server.service.commit.commit_path import CommitRequest, Committer, raise_unknown_if_unavailable
from server.service.images.pair import build_image_rule
from server.service.locations.location_rule import build_file_rule
from server.service.tables.keyed_tables import KeyedTables, Pin, find_keyed

MAX_TRIES = 20
"""How often the server appends again when the change store has moved on meanwhile."""
_HEAD = "assert-ref-snapshot-id"


@dataclass(frozen=True)
class ImageWrites:
    """Commits of engines under the names of keyed tables."""

    tables: KeyedTables
    committer: Committer
    files: SentFiles
    checker: KeyChecker
    most_rows: int
    file_io: dict[str, str] = field(default_factory=dict)

    def commit(self, request: CommitRequest) -> bool:
        """Apply a commit that changes a keyed table's data; False when the commit changes none.

        Raises Invalid for rows or commits that a keyed table does not take, and what `Committer.commit` raises.
        """
        (sent_change,) = request.changes
        sent = find_sent_snapshot(sent_change.name, sent_change.updates)
        if sent is None:
            return False
        store = TableName(sent_change.name.as_namespace, CHANGE)
        as_sent = TableCommit(name=store, requirements=[], updates=sent_change.updates)
        try:
            self._append(request, sent, as_sent)
        except CommitUnknown:
            raise
        except CatalogError as error:
            # After a refusal the engine deletes its files, which another try of the same request may have committed.
            if self.committer.has_applied(request.catalog, [as_sent]):
                return True
            if isinstance(error, NotFound):
                raise Invalid(f"a file of the commit is gone: {error.message}") from error
            raise
        return True

    def stop(self) -> None:
        """End the checker of keys."""
        self.checker.stop()

    def _append(self, request: CommitRequest, sent: SentSnapshot, as_sent: TableCommit) -> None:
        files: Sequence[DataFileEntry] | None = None
        for _ in range(MAX_TRIES):
            if self.committer.has_applied(request.catalog, [as_sent]):
                return
            with raise_unknown_if_unavailable():
                pin, now_ms = self._pin(request.catalog, request.changes[0].name)
            self._check_requirements(pin, request.changes[0].requirements)
            files = self._read(pin, sent) if files is None else files
            if self._try_once(request, sent, _Target(pin, as_sent.name, now_ms), files):
                return
        raise RequirementFailed(f"other commits change {as_sent.name} too fast; the server tried {MAX_TRIES} times")

    def _pin(self, catalog: CatalogName, name: TableName) -> tuple[Pin, int]:
        with self.tables.database.reading() as uow:
            return self.tables.pin_relation(uow, find_keyed(uow, catalog, name)), int(uow.now().timestamp() * 1000)

    @staticmethod
    def _check_requirements(pin: Pin, requirements: Sequence[Json]) -> None:
        """Check all but that nobody else has committed: what is upserted does not depend on what the engine read."""
        of_base = translate_requirements(pin.relation.id, requirements)
        check_requirements(pin.base, [requirement for requirement in of_base if requirement.get("type") != _HEAD])

    def _read(self, pin: Pin, sent: SentSnapshot) -> Sequence[DataFileEntry]:
        """The files of the commit, checked: where they lie, their columns, and their keys."""
        database, links = self.tables.database, self.tables.metadata.files
        with database.reading() as uow:
            lists = build_image_rule(uow, database, links, pin)
            data = build_file_rule(uow, database, links, pin.change_store, pin.change)
        listed = self.files.list(pin.base, sent.as_sent(), lists)
        _check_files(pin, listed)
        described = self.files.describe(pin.base, listed, data)
        self._check_keys(pin, described, data)
        return described

    def _check_keys(self, pin: Pin, files: Sequence[DataFileEntry], rule: FileRule) -> None:
        name, spec = pin.relation.name, pin.keyed.spec
        rows = sum(file.stats.record_count for file in files)
        if rows > self.most_rows:
            raise Invalid(
                f"{rows:,} rows in one commit to {name} are more than the server checks for repeated keys",
                hint="write them with firn.spark.upsert, or in parts, or raise images.write_rows",
            )
        if rows == 0:
            return
        task = KeysTask(
            metadata=pin.change_store.metadata_location or "",
            primary_key=list(spec.primary_key),
            sequence_field=spec.sequence_field,
            files=[file.stats.location for file in files],
            finds_repeated=spec.sequence_field is None,
            file_io=self.file_io,
        )
        _check_report(name, self.checker.check_keys(task, rule.check))

    def _try_once(
        self, request: CommitRequest, sent: SentSnapshot, target: _Target, files: Sequence[DataFileEntry]
    ) -> bool:
        """Append to the change store as it is now; False when another commit was faster."""
        pin = target.pin
        aligning = align_spec(pin.base, pin.change)
        change = apply_updates(pin.change, aligning, now_ms=target.now_ms, previous_location=None)
        made = self.files.append(change, files, snapshot_id=sent.id, now_ms=target.now_ms, summary=sent.describe())
        commit = TableCommit(name=target.store, requirements=made.requirements(), updates=[*aligning, *made.updates()])
        try:
            self.committer.commit(replace(request, changes=[commit]))
        except (RequirementFailed, CommitRefused):
            self._discard(made)
            if self._has_moved(request.catalog, pin):
                return False
            raise
        except CommitUnknown:
            raise
        except CatalogError:
            self._discard(made)
            raise
        return True

    def _has_moved(self, catalog: CatalogName, pin: Pin) -> bool:
        with raise_unknown_if_unavailable():
            now, _ = self._pin(catalog, pin.relation.name)
        return current_snapshot_id(now.change) != current_snapshot_id(pin.change)

    def _discard(self, made: AddSnapshot) -> None:
        with suppress(Unavailable):  # orphan removal deletes them
            self.files.discard(made)


@dataclass(frozen=True, slots=True)
class _Target:
    """The stores at one moment, the name of the change store, and the time in epoch milliseconds."""

    pin: Pin
    store: TableName
    now_ms: int


def _check_files(pin: Pin, files: Sequence[SentFile]) -> None:
    name = pin.relation.name
    if any(file.content for file in files):
        raise Invalid(f"the commit to {name} says that it appends, and brings delete files")
    own = [normalize_location(location) for location in list_own_locations(pin.change)]
    for file in files:
        # A file of base would belong to both stores, and go with the one that lets it go first.
        if not any(lies_in(normalize_location(file.location), directory) for directory in own):
            raise LocationRefused(
                f"{name}: {file.location} is not in the directory for new files",
                hint=f"write to {own[0]}/data, which the property write.data.path of the table names",
            )
    if any(file.spec_id != pin.base["default-spec-id"] for file in files):
        raise RequirementFailed(f"Requirement failed: the partitions of {name} have changed", hint="refresh the table")


def _check_report(name: TableName, report: KeyReport) -> None:
    if report.nulls:
        described = ", ".join(f"{column} in {count} rows" for column, count in report.nulls.items())
        raise Invalid(f"{name}: key columns and the sequence field must not be null; null are {described}")
    if report.repeated:
        shown = "; ".join(report.samples)
        raise Invalid(
            f"{name}: {report.repeated} keys appear more than once in the rows, such as {shown}",
            hint="keep one row of each key, or give the table a sequence field that orders them",
        )
