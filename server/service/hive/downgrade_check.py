"""Compares a linked table with Hive before and during a downgrade: the work that remains, and what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catalog.hive.baseline import WatchedDirectory
from catalog.hive.model import HiveTable
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publish_decisions import PartitionsInHive, TableSides, find_unpublishable
from catalog.hive.publishing import PublishComparison, compare_partitions
from catalog.iceberg.json import Json
from catalog.names import CatalogName
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from catalog.tables.relation import Relation
from server.service.commit.commit_target import load_metadata
from server.service.hive.hive_state import LinkedTable, find_linked_relation, load_linked_table, read_some
from server.service.hive.table_index import HiveIndex
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradePreview:
    """The work of a downgrade, as far as the server knows it before the start."""

    table: str
    partitions: int
    pending_rows: int
    """Changes that no merge has brought into base yet."""
    differing: int
    """Partitions whose files in base are not the files that Hive lists."""
    directories_in_grace: int
    """Superseded directories that a Hive job may still write to."""
    grace_until: datetime | None
    """When the grace period of the last of them ends."""
    grace_seconds: int
    """The time for which a downgrade watches a superseded directory (`firn.hive.superseded-dir-grace`)."""
    drift: str | None
    """Changes of Hive that the user has to decide about first."""
    blocked: str | None
    """The changes that Hive cannot represent, and what to do: with them a downgrade never ends."""


@dataclass(frozen=True, slots=True)
class DowngradeComparison:
    """A linked table beside the files that Hive lists."""

    linked: LinkedTable
    partitions: PublishComparison
    blocked: str | None
    """Why Hive cannot represent some partition, and what to do."""

    @property
    def watched(self) -> Sequence[WatchedDirectory]:
        """Superseded directories that a Hive job may still write to."""
        return [directory for baseline in self.linked.baselines.values() for directory in baseline.watched]

    @property
    def grace_until(self) -> datetime | None:
        """When the grace period of the last watched directory ends; None without any."""
        superseded_ns = max((directory.since_ns for directory in self.watched), default=None)
        if superseded_ns is None:
            return None
        return datetime.fromtimestamp((superseded_ns + self.linked.when.watch_ns) / 1e9, UTC)


@dataclass(frozen=True)
class DowngradeCheck:
    """Reads the table, the metastore and the table's live files; changes nothing."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles

    def preview(self, catalog: CatalogName, target: str) -> DowngradePreview:
        """Return the remaining work. NotFound without a linked table, Unavailable without the metastore."""
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, target)
            facts = load_facts(uow, relation)
        comparison = self.compare(relation)
        linked = comparison.linked
        grace: timedelta = facts.policy["firn.hive.superseded-dir-grace"]
        return DowngradePreview(
            table=str(relation.name),
            partitions=sum(not baseline.is_dropped for baseline in linked.baselines.values()),
            pending_rows=0 if facts.keyed is None else facts.keyed.pending_rows,
            differing=comparison.partitions.count,
            directories_in_grace=len(comparison.watched),
            grace_until=comparison.grace_until,
            grace_seconds=int(grace.total_seconds()),
            drift=None if linked.link.drift is None else linked.link.drift.message,
            blocked=comparison.blocked,
        )

    def compare(self, relation: Relation) -> DowngradeComparison:
        """Compare the table's live files with the files that Hive lists."""
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        table, metadata = self.index.table(relation), load_metadata(self.metadata, linked.target)
        records = to_partition_records(table.partition_columns, linked.baselines)
        partitions = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        return DowngradeComparison(linked, partitions, self._find_blocked(linked, table, metadata, partitions))

    def _find_blocked(
        self, linked: LinkedTable, table: HiveTable, metadata: Json, partitions: PublishComparison
    ) -> str | None:
        """Explain why Hive cannot represent some partition; neither a sync nor time changes that."""
        metastore = self.index.metastore(linked.relation.catalog)
        state = read_some(metastore, table.database, table.name, [*partitions.differing])
        in_hive = PartitionsInHive(formats={unit.name: unit.format for unit in state.units})
        sides = TableSides(link=linked.link, table=table, metadata=metadata)
        return find_unpublishable(sides, partitions, in_hive, self.files.live_files(metadata))
