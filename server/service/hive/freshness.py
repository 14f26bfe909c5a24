"""How far Hive is behind a table: which partitions a publish would have to give it, as files and books tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.errors import NotFound
from catalog.hive.baseline import PartitionBaseline
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
from server.service.hive.link_state import load_linked_table
from server.service.hive.table_index import HiveIndex
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPreview:
    """What Hive has not of a table, merged or without a key; pending changes of a keyed one are beside it."""

    table: str
    differing: int
    """Partitions."""
    since: datetime | None
    """When the oldest file came that Hive does not list; None where files have only gone, and with its snapshot."""


@dataclass(frozen=True)
class Freshness:
    """Compares tables with what Hive lists; reads all manifests of one, so it is for people that look at it."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles

    def behind(self, catalog: CatalogName, full_name: str) -> PublishPreview:
        """As the books have Hive; changes nothing.

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
        columns = self.index.metastore(catalog).table(*names).partition_columns
        records = to_partition_records(columns, linked.baselines)
        metadata = load_metadata(self.metadata, linked.target)
        found = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        since = self._since(metadata, found, [*linked.baselines.values()]) if found.count else None
        return PublishPreview(table=str(relation.name), differing=found.count, since=since)

    def _since(
        self, metadata: Json, found: PublishComparison, baselines: Collection[PartitionBaseline]
    ) -> datetime | None:
        listed = {normalize_location(f"{one.location}/{file.path}") for one in baselines for file in one.files}
        partitions: set[Record] = {*found.differing.values(), *found.unknown}
        numbers = (
            file.sequence_number
            for file in self.files.live_files(metadata)
            if file.partition in partitions and (file.content or normalize_location(file.location) not in listed)
        )
        oldest = min(numbers, default=None)
        came = (one["timestamp-ms"] for one in metadata.get("snapshots") or [] if sequence_number(one) == oldest)
        when = next(came, None)
        return None if when is None else datetime.fromtimestamp(when / 1000, UTC)
