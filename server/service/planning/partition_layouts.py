"""The file layout of a table per partition, counted from the manifests of the current snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from catalog.files.bin_packing import AppliedDeletes, RewriteRule, Selection
from catalog.files.file_layout import FEWEST_FILES, LayoutCounter, pack_change_files
from catalog.files.manifest_entries import ManifestEntry
from catalog.files.partition_text import make_partition_formatter
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.spec import CHANGE
from catalog.names import CatalogName, TableName
from catalog.planning import TableFacts
from catalog.planning.file_rules import compact_rule, rewrite_rule
from catalog.policy.sizes import small_file_bytes
from catalog.ports.manifest_reading import ManifestReading
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import load_file_rule
from server.service.planning.planner import find_planned_relation, load_facts
from server.service.tables.metadata_files import MetadataFiles

_EPOCH = date(1970, 1, 1)


@dataclass(slots=True, kw_only=True)
class PartitionLayout:
    """The live files of one partition of one store."""

    store: str
    partition: str
    data_files: int = 0
    delete_files: int = 0
    small_files: int = 0
    packable_files: int = 0
    """Files that a rewrite (in a change store, a compaction) would take if a user requested it now."""
    bytes: int = 0
    records: int = 0

    def add(self, file: ManifestEntry, small_bytes: int) -> None:
        """Count one file."""
        if file.content:
            self.delete_files += 1
            return
        self.data_files += 1
        self.small_files += file.size < small_bytes
        self.bytes += file.size
        self.records += file.record_count


@dataclass(frozen=True)
class PartitionLayouts:
    """Reads the manifests at a user's request; planning never does."""

    database: Database
    metadata: MetadataFiles
    manifests: ManifestReading

    def list_partitions(self, catalog: CatalogName, name: TableName) -> list[PartitionLayout]:
        """The layout per store and partition, ordered by partition name; raises NoSuchTable."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            facts = load_facts(uow, relation)
            stores = uow.relations.stores_of(relation.id) or [relation]
        return [partition for store in stores for partition in self._list_partitions_of_store(store, facts)]

    def measure_skew(self, catalog: CatalogName, name: TableName) -> float | None:
        """The size of the largest partition divided by the average size; None with fewer than two partitions.

        For a keyed table, only the partitions of its base store count.
        """
        sizes = [partition.bytes for partition in self.list_partitions(catalog, name) if partition.store != CHANGE]
        total = sum(sizes)
        return max(sizes) * len(sizes) / total if len(sizes) > 1 and total > 0 else None

    def _list_partitions_of_store(self, store: Relation, facts: TableFacts) -> list[PartitionLayout]:
        metadata = load_metadata(self.metadata, store)
        role = store.name.name if store.kind.is_store else "table"
        format_partition, small_bytes = make_partition_formatter(metadata), small_file_bytes(facts.policy, store.kind)
        layouts: dict[str, PartitionLayout] = {}
        rule = load_file_rule(self.database, self.metadata.files, store, metadata)
        files = _read_live_files(self.manifests.confined(rule), metadata)
        for file in files:
            partition = format_partition(file.spec_id, file.partition)
            layouts.setdefault(partition, PartitionLayout(store=role, partition=partition)).add(file, small_bytes)
        for file in _select_packable(store.kind, facts, metadata, files):
            layouts[format_partition(file.spec_id, file.partition)].packable_files += 1
        return [layouts[partition] for partition in sorted(layouts)]


def _read_live_files(manifests: ManifestReading, metadata: Json) -> list[ManifestEntry]:
    """All live files of the current snapshot of main."""
    head = current_snapshot(metadata)
    lines = [] if head is None else manifests.lines(metadata, head)
    return [file for line in lines for file in manifests.files(metadata, line)]


def _select_packable(
    kind: RelationKind, facts: TableFacts, metadata: Json, files: list[ManifestEntry]
) -> Iterator[ManifestEntry]:
    """The files that a job would take if a user requested it now."""
    if facts.keeps_hive_files:
        return
    counter = LayoutCounter(metadata, {}, 0)
    data = [file for file in files if not file.content]
    if kind is RelationKind.CHANGE and facts.keyed is not None:
        task = {**compact_rule(facts.policy, facts.keyed), "min_files": FEWEST_FILES}
        for _, packed in pack_change_files(data, task, counter.spec_id, counter.width):
            yield from packed
        return
    deletes = AppliedDeletes()
    for file in files:
        if file.content:
            deletes.add(file)
    rule = RewriteRule.of_task({**rewrite_rule(facts.policy), "min_files": FEWEST_FILES})
    selection: Selection[ManifestEntry] = Selection(rule, deletes, spec_id=counter.spec_id, width=counter.width)
    for file in data:
        selection.add(file, file)
    for group in selection.groups():
        yield from group.items
