"""Registers Hive's changes in one snapshot: it adds and removes files, and reads no row.

This serves plain tables, and keyed tables whose Hive side is trusted to add rows of new keys only.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from catalog.errors import CatalogError, CommitUnknown, RequirementFailed
from catalog.files.data_file import AddSnapshot, DataFileEntry, order_partition
from catalog.history.commit import TableCommit
from catalog.hive.drift import DroppedPartition, Rebuild
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import build_name_mapping, read_aliases
from catalog.hive.partition_names import parse_partition_name, to_partition_record
from catalog.hive.sync_decisions import LateChange
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from server.service.commit.commit_path import CommitRequest, Committer, InSameTransaction
from server.service.hive.change_set import ChangeSet
from server.service.hive.file_check import SyncClassification
from server.service.hive.hive_state import HiveState, LinkedTable, Unit, join
from server.service.hive.link_state import advance
from server.service.hive.sync_plan import next_checkpoint


class Moved(Exception):
    """Another commit or writer changed the table or its files after the comparison: compare again."""


def apply(committer: Committer, linked: LinkedTable, change: TableCommit, also: InSameTransaction) -> None:
    """Commit; Moved when the table is not as it was looked at any more."""
    catalog = linked.relation.catalog
    try:
        request = CommitRequest(catalog=catalog, changes=[change], engine="firn sync", also=also, follows_hive=True)
        committer.commit(request)
    except RequirementFailed as error:
        raise Moved from error


@contextmanager
def discard_if_refused(files: TableFiles, snapshot: AddSnapshot) -> Iterator[None]:
    """Delete the files that were written for a snapshot if its commit is refused; not if the outcome is unknown."""
    try:
        yield
    except CommitUnknown:
        raise
    except (CatalogError, Moved):
        for location in snapshot.written:
            files.delete(location)
        raise


@dataclass(slots=True)
class _Files:
    """The files to add, each with its partition, and the files to remove; all by location."""

    come: list[str] = field(default_factory=list)
    partitions: list[tuple[Any, ...]] = field(default_factory=list)
    go: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FileRegistration:
    """Registers files; safe to be interrupted anywhere."""

    database: Database
    committer: Committer
    files: TableFiles

    def register(self, linked: LinkedTable, state: HiveState, classified: SyncClassification, metadata: Json) -> None:
        """Commit one snapshot with all changes, and advance the link with it.

        Raises RequirementFailed if Hive removed files that this side removed or rewrote before. With
        `firn.hive.overwrite-wins` such a partition becomes what Hive lists, without the rows written here.
        """
        changes = classified.changes
        files = self._files(linked, state, changes, metadata)
        entries = zip(files.come, files.partitions, strict=True)
        added = [DataFileEntry(stats=classified.stats[location], partition=part) for location, part in entries]
        added.sort(key=lambda entry: order_partition(entry.partition))
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        snapshot = self.files.write_snapshot(
            metadata,
            added,
            files.go,
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=now_ms,
            summary_extra={"firn.reason": f"sync of {linked.relation.hive_name}: {changes.sentence}"},
        )
        with discard_if_refused(self.files, snapshot):
            self._commit(linked, state, changes, metadata, snapshot, added)

    def _commit(
        self,
        linked: LinkedTable,
        state: HiveState,
        changes: ChangeSet,
        metadata: Json,
        snapshot: AddSnapshot,
        added: list[DataFileEntry],
    ) -> None:
        spelled = {alias for entry in added for alias in entry.stats.aliases}
        aliases = read_aliases(metadata["properties"][NAME_MAPPING])
        mapping = build_name_mapping(current_schema(metadata), {*aliases, *spelled})
        renamed: list[Json] = [{"action": "set-properties", "updates": {NAME_MAPPING: mapping}}]
        change = TableCommit(
            name=linked.target.name,
            requirements=snapshot.requirements(),
            updates=[*snapshot.updates(), *(renamed if spelled else [])],
        )
        checkpoint = next_checkpoint(
            linked, state, changes, changes.changed, _list_late_changes(linked, changes), as_changes=False
        )
        apply(self.committer, linked, change, lambda uow: advance(uow, linked.relation.id, checkpoint))

    def _files(self, linked: LinkedTable, state: HiveState, changes: ChangeSet, metadata: Json) -> _Files:
        files = _Files()
        live = self._read_live_files(metadata) if linked.overwrite_wins else None
        columns = state.table.partition_columns
        for name, change in changes.changed.items():
            unit = changes.units.get(name)
            record = to_partition_record(columns, unit.values if unit else parse_partition_name(columns, name))
            gone = change.removed if isinstance(change, Rebuild | DroppedPartition) else ()
            go = [join(linked.baselines[name].location, file.path) for file in gone]
            arrived = () if isinstance(change, DroppedPartition) else change.files
            if live is not None and not live.keys() >= set(go):
                go = [location for location, partition in live.items() if partition == record]
            elif isinstance(change, Rebuild):
                arrived = change.added
            files.go += go
            if unit is not None:
                files.come += [join(unit.location, file.path) for file in arrived]
                files.partitions += [record] * len(arrived)
        files.go += changes.lost_late
        for late in _list_late_changes(linked, changes):
            self._add_late(files, late, state, changes.units.get(late.name))
        return files

    def _add_late(self, files: _Files, late: LateChange, state: HiveState, unit: Unit | None) -> None:
        """Add rows of a superseded directory: readers see them at once, and Hive with the next publish."""
        columns = state.table.partition_columns
        record = to_partition_record(columns, unit.values if unit else parse_partition_name(columns, late.name))
        arrived = [join(late.directory.location, file.path) for file in late.files]
        files.come += arrived
        files.partitions += [record] * len(arrived)

    def _read_live_files(self, metadata: Json) -> dict[str, tuple[Any, ...]]:
        """The head's data files, each with its partition."""
        return {file.location: file.partition for file in self.files.live_files(metadata) if file.content == 0}


def _list_late_changes(linked: LinkedTable, changes: ChangeSet) -> Sequence[LateChange]:
    """The late changes whose files the sync registers. A keyed table gets their rows as changes instead."""
    return () if linked.is_keyed else changes.late
