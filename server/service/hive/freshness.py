"""Finds the partitions of a table that Hive lacks, from the table's files and the link."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.hive.baseline import PartitionBaseline
from catalog.hive.model import HiveTable
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publishing import PublishComparison, Record, compare_partitions
from catalog.iceberg.json import Json
from catalog.iceberg.reading import sequence_number
from catalog.names import CatalogName
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from firn.protocol.locations import normalize_location
from server.service.commit.commit_target import load_metadata
from server.service.hive.hive_state import LinkedTable, find_linked_relation, load_linked_table, split_name
from server.service.hive.publish_locations import NEARER, WritersReach, get_publish_directory
from server.service.hive.published_permissions import PermissionsPreview, PublishedPermissions
from server.service.hive.table_index import HiveIndex
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

MOST_NAMES = 20
"""The number of partitions that a preview names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """What the partitions have that a publish writes."""

    since: datetime | None
    """When the oldest file came that Hive does not list; None if files only went, or its snapshot is expired."""
    files: int
    rows: int
    """Without those that position deletes and vectors hide."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPreview:
    """The partitions that Hive lacks, without pending changes of a keyed table, and what they have."""

    table: str
    differing: int
    """Partitions."""
    new: int
    """Those of them that Hive does not have."""
    names: tuple[str, ...]
    """Some of the partitions that Hive has; none if the table is not partitioned."""
    since: datetime | None
    files: int
    rows: int
    bytes: int
    pending_rows: int
    """Changes that a publish merges first. They may change more partitions, and the rows."""
    permissions: PermissionsPreview | None = None
    """What new directories get; None if it was not asked for, or where the store has no permissions."""


_POSITIONS = 1
"""The content of position-delete files and vectors."""


@dataclass(frozen=True)
class Freshness:
    """Compares a table with Hive's list; it reads all manifests, so only people's requests call it."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles
    permissions: PublishedPermissions
    reach: WritersReach

    def behind(self, catalog: CatalogName, full_name: str, *, with_permissions: bool = False) -> PublishPreview:
        """Compare by the link; change nothing. `with_permissions` creates an empty directory, and deletes it.

        NotFound when no table is linked to that Hive table, Unavailable without the metastore.
        """
        names = split_name(full_name)
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, full_name)
            linked = load_linked_table(uow, relation)
            own_directory = get_publish_directory(uow, relation)
            keyed = load_facts(uow, relation).keyed
        table = self.index.metastore(catalog).table(*names)
        records = to_partition_records(table.partition_columns, linked.baselines)
        metadata = load_metadata(self.metadata, linked.target)
        comparison = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        unpublished = self._measure(metadata, comparison, [*linked.baselines.values()])
        permissions = None
        if with_permissions:
            permissions = self._preview_permissions(own_directory, table, linked, comparison)
        return PublishPreview(
            table=str(relation.name),
            differing=comparison.count,
            new=len(comparison.unknown),
            names=tuple(name for name in sorted(comparison.differing) if name)[:MOST_NAMES],
            since=unpublished.since,
            files=unpublished.files,
            rows=unpublished.rows,
            bytes=unpublished.bytes,
            pending_rows=0 if keyed is None else keyed.pending_rows,
            permissions=permissions,
        )

    def _preview_permissions(
        self, own_directory: str, table: HiveTable, linked: LinkedTable, comparison: PublishComparison
    ) -> PermissionsPreview | None:
        """For the first partition that a publish would replace, or for the table's directory."""
        if (barrier := self.reach.find_barrier(table.location, own_directory)) is not None:
            return PermissionsPreview(
                directory=table.location, permissions="not looked at", refused=barrier, hint=NEARER
            )
        names = sorted([*comparison.differing]) or sorted(linked.baselines)
        first = next((linked.baselines[name] for name in names if not linked.baselines[name].is_dropped), None)
        return self.permissions.preview(own_directory, table.location if first is None else first.location)

    def _measure(
        self, metadata: Json, comparison: PublishComparison, baselines: Collection[PartitionBaseline]
    ) -> Unpublished:
        if not comparison.count:
            return Unpublished(since=None, files=0, rows=0, bytes=0)
        hive_files = {
            normalize_location(f"{baseline.location}/{file.path}") for baseline in baselines for file in baseline.files
        }
        partitions: set[Record] = {*comparison.differing.values(), *comparison.unknown}
        files, rows, size, oldest = 0, 0, 0, None
        for file in self.files.live_files(metadata):
            if file.partition not in partitions:
                continue
            if file.content or normalize_location(file.location) not in hive_files:
                oldest = file.sequence_number if oldest is None else min(oldest, file.sequence_number)
            if not file.content:
                files, rows, size = files + 1, rows + file.record_count, size + file.size
            elif file.content == _POSITIONS:
                rows -= file.record_count
        return Unpublished(since=_find_time(metadata, oldest), files=files, rows=max(0, rows), bytes=size)


def _find_time(metadata: Json, number: int | None) -> datetime | None:
    """When the snapshot with this sequence number was committed; None if it has expired."""
    snapshots = metadata.get("snapshots") or []
    times = (snapshot["timestamp-ms"] for snapshot in snapshots if sequence_number(snapshot) == number)
    when = next(times, None)
    return None if when is None else datetime.fromtimestamp(when / 1000, UTC)
