"""Finds the partitions of a table that Hive lacks, from the table's files and the link."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.errors import NotFound
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
from server.service.hive.hive_state import split_name
from server.service.hive.link_state import LinkedTable, load_linked_table
from server.service.hive.publish_locations import NEARER, WritersReach, get_publish_directory
from server.service.hive.published_permissions import PermissionsPreview, PublishedPermissions
from server.service.hive.table_index import HiveIndex
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPreview:
    """The partitions that Hive lacks; it does not count pending changes of a keyed table."""

    table: str
    differing: int
    """Partitions."""
    since: datetime | None
    """When the oldest file came that Hive does not list; None if files only went, or its snapshot is expired."""
    permissions: PermissionsPreview | None = None
    """What new directories get; None if it was not asked for, or where the store has no permissions."""


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
            relation = uow.relations.of_hive(catalog, ".".join(names))
            if relation is None:
                raise NotFound(
                    f"{catalog} has no table over {full_name}", hint="only an upgraded table can be published"
                )
            linked = load_linked_table(uow, relation)
            own_directory = get_publish_directory(uow, relation)
        table = self.index.metastore(catalog).table(*names)
        records = to_partition_records(table.partition_columns, linked.baselines)
        metadata = load_metadata(self.metadata, linked.target)
        comparison = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        since = self._find_oldest_wait(metadata, comparison, [*linked.baselines.values()]) if comparison.count else None
        permissions = None
        if with_permissions:
            permissions = self._preview_permissions(own_directory, table, linked, comparison)
        return PublishPreview(
            table=str(relation.name), differing=comparison.count, since=since, permissions=permissions
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

    def _find_oldest_wait(
        self, metadata: Json, comparison: PublishComparison, baselines: Collection[PartitionBaseline]
    ) -> datetime | None:
        hive_files = {
            normalize_location(f"{baseline.location}/{file.path}") for baseline in baselines for file in baseline.files
        }
        partitions: set[Record] = {*comparison.differing.values(), *comparison.unknown}
        numbers = (
            file.sequence_number
            for file in self.files.live_files(metadata)
            if file.partition in partitions and (file.content or normalize_location(file.location) not in hive_files)
        )
        oldest = min(numbers, default=None)
        snapshots = metadata.get("snapshots") or []
        came = (snapshot["timestamp-ms"] for snapshot in snapshots if sequence_number(snapshot) == oldest)
        when = next(came, None)
        return None if when is None else datetime.fromtimestamp(when / 1000, UTC)
