"""Statistics of columns for people, counted once for each state of a table (docs/columns.md)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cachetools import LRUCache

from catalog.files.column_statistics import (
    ColumnCounter,
    DistinctValues,
    StoreCounts,
    list_counted_columns,
    read_distinct_values,
)
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, ref_snapshot_id
from catalog.names import CatalogName, TableName
from catalog.ports.column_statistics import ColumnStatisticsReading
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import load_file_rule
from server.service.planning.planner import find_planned_relation
from server.service.tables.metadata_files import MetadataFiles

MOST_FILES = 20_000
"""Data files that one count reads."""
SECONDS = 4.0
"""Time after which a count begins no further manifest."""
MOST_COLUMNS = 2_000
_CACHED_COLUMNS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The columns of one state of a table."""

    schema: Json
    properties: Json
    snapshot_id: int | None
    counts: StoreCounts
    ranges: Mapping[int, tuple[str | None, str | None]]
    """The smallest and the largest values, as text."""
    distinct: dict[int, DistinctValues]
    pending_rows: int
    counted_at: datetime

    @property
    def hides_rows(self) -> bool:
        """Whether files have rows that readers do not see."""
        return self.counts.has_deletes or self.pending_rows > 0


@dataclass(frozen=True, slots=True)
class _Stores:
    main: Relation
    change: Relation | None
    """The change store, if it has pending changes."""
    pending_rows: int
    now: datetime

    @property
    def state(self) -> tuple[str | None, str | None]:
        return self.main.metadata_location, None if self.change is None else self.change.metadata_location


@dataclass(frozen=True)
class ColumnCounts:
    """Counts columns from manifests when somebody asks. Any number of threads may use it at once."""

    database: Database
    metadata: MetadataFiles
    manifests: ColumnStatisticsReading
    _known: LRUCache[object, ColumnStatistics] = field(
        default_factory=lambda: LRUCache(
            _CACHED_COLUMNS, getsizeof=lambda statistics: len(statistics.counts.columns) + 1
        )
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    """One count at a time: it takes a whole processor, which other requests need too."""

    def count(self, catalog: CatalogName, name: TableName) -> ColumnStatistics:
        """The statistics of the table as it is now. Raises NoSuchTable.

        Pending changes of a keyed table are counted with base: readers see some rows of both, and no others.
        """
        stores = self._find_stores(catalog, name)
        if (known := self._get_known(stores)) is not None:
            return known
        with self._counting:
            if (known := self._get_known(stores)) is not None:
                return known
            statistics = self._count(stores)
        with self._lock:
            self._known[stores.state] = statistics
        return statistics

    def _get_known(self, stores: _Stores) -> ColumnStatistics | None:
        with self._lock:
            return self._known.get(stores.state)

    def _find_stores(self, catalog: CatalogName, name: TableName) -> _Stores:
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            if relation.kind is not RelationKind.KEYED:
                return _Stores(relation, None, 0, uow.now())
            keyed = uow.keyed.get(relation.id)
            change = uow.relations.get(keyed.change_id) if keyed.pending_commits else None
            return _Stores(uow.relations.get(keyed.base_id), change, keyed.pending_rows, uow.now())

    def _count(self, stores: _Stores) -> ColumnStatistics:
        metadata = load_metadata(self.metadata, stores.main)
        schema, head_id = current_schema(metadata), ref_snapshot_id(metadata, "main")
        columns = list_counted_columns(schema)[:MOST_COLUMNS]
        counts = StoreCounts(
            columns={column.id: ColumnCounter(column=column) for column in columns},
            whole_ranges={column.id for column in columns},
        )
        self._add_store(stores.main, metadata, counts)
        if stores.change is not None:
            self._add_store(stores.change, load_metadata(self.metadata, stores.change), counts)
        return ColumnStatistics(
            schema=schema,
            properties=metadata.get("properties") or {},
            snapshot_id=head_id,
            counts=counts,
            ranges={field_id: self._format_range(counter) for field_id, counter in counts.columns.items()},
            distinct=dict(read_distinct_values(metadata, head_id)),
            pending_rows=stores.pending_rows if stores.change is not None else 0,
            counted_at=stores.now,
        )

    def _format_range(self, counter: ColumnCounter) -> tuple[str | None, str | None]:
        format_value, kind = self.manifests.format_value, counter.column.kind
        return format_value(kind, counter.lower), format_value(kind, counter.upper)

    def _add_store(self, store: Relation, metadata: Json, counts: StoreCounts) -> None:
        rule = load_file_rule(self.database, self.metadata.files, store, metadata)
        self.manifests.confined(rule).add_up(metadata, counts, most_files=MOST_FILES, seconds=SECONDS)
