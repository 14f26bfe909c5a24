"""What the services need to work beside Hive: the index of its tables, the ground of linked ones, their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.errors import Denied
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, FileStats, LiveFile, Unreadable
from catalog.hive.baseline import Listing
from catalog.hive.checkpoint import PublishPlan, SyncPlan
from catalog.hive.events import HiveEvent
from catalog.hive.link import HiveLink
from catalog.hive.table_index import DatabaseCounts, HiveTableState, IndexedTable, LinkSummary
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.jobs.operation import OperationId
from catalog.names import CatalogName, RelationId
from catalog.ports.metastore import Metastore
from catalog.ports.page import Page


class HiveTables(Protocol):
    """The index of a metastore's tables, kept by a background task."""

    def replace(self, catalog: CatalogName, database: str, tables: Sequence[IndexedTable]) -> int:
        """Make the index of one database these tables; how many rows changed."""

    def keep_databases(self, catalog: CatalogName, databases: Collection[str]) -> None:
        """Forget the tables of databases that are gone."""

    def find(self, catalog: CatalogName, database: str, name: str) -> IndexedTable | None: ...

    def list(
        self,
        catalog: CatalogName,
        *,
        database: str | None = None,
        search: str | None = None,
        state: HiveTableState | None = None,
        differs: bool = False,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """By database and name; `differs` are those that are upgraded and have drifted."""

    def databases(self, catalog: CatalogName) -> Sequence[DatabaseCounts]:
        """By name."""


class Baselines(Protocol):
    """Per partition of a linked table: what the last sync saw (docs/protocols.md#hive-sync-and-publish)."""

    def of(self, relation_id: RelationId) -> Mapping[str, Json]: ...
    def elsewhere(self, relation_id: RelationId, directories: Collection[str]) -> Sequence[str]:
        """The locations of partitions that do not lie in these directories, as they are written."""

    def put(self, relation_id: RelationId, baselines: Mapping[str, Json]) -> None: ...
    def remove(self, relation_id: RelationId, partitions: Collection[str]) -> None: ...
    def link(self, relation_id: RelationId) -> HiveLink | None: ...
    def put_link(self, relation_id: RelationId, link: HiveLink) -> None: ...
    def give_back(self, relation_id: RelationId, operation_id: OperationId | None) -> None:
        """Note that an operation gives the table back to Hive, or that none does."""

    def given_back_by(self, relation_id: RelationId) -> OperationId | None: ...
    def summaries(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, LinkSummary]: ...
    def remember(self, relation_id: RelationId, events: Sequence[HiveEvent], now: datetime) -> None:
        """Keep what a sync or publish did; old ones go."""

    def events(
        self, relation_id: RelationId, *, partition: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[HiveEvent]:
        """Newest first; with `partition`, of that one."""

    def forget(self, relation_id: RelationId) -> None: ...
    def stage(self, job_id: JobId, plan: SyncPlan | PublishPlan) -> None: ...
    def staged(self, job_id: JobId) -> SyncPlan | PublishPlan | None: ...


class Metastores(Protocol):
    """The metastores that catalogs are linked to."""

    def of(self, uri: str) -> Metastore:
        """The metastore at these addresses; opens nothing until it is asked."""


class TableFiles(Protocol):
    """Data files and manifests, without Spark."""

    def listings(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """The files in each directory, and with `recursive` those below it; one that does not exist is empty, as it is
        for Hive.
        """

    def listings_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        """The same, with directories that may not be listed among the others."""

    def listing_below(self, location: str) -> Listing:
        """The files in a directory and all directories below it."""

    def modified_ns(self, location: str) -> int | None:
        """When a directory last had a file added, removed or renamed; None where its storage does not say.

        NO_DIRECTORY_NS where there is none.
        """

    def footers(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats]:
        """What files say of themselves, in the order asked; Invalid names a file that is damaged.

        They are read a little ahead of whoever takes them: there may be more than fit into memory. `formats` names
        those that are not Parquet; it need not know a file before its location is taken, nor once its statistics are.
        Nulls of the columns `nulls_of` (field ids) are counted by reading rows where a format does not count them.
        """

    def examined(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats | Unreadable]:
        """The same, with files that cannot be read among the others; Unavailable when the storage does not answer."""

    def digests(self, locations: Sequence[str]) -> Iterator[int | None]:
        """What the files are known again by when they were moved (`FileStats.digest`), in the order asked.

        None for one that is gone or may not be read; Unavailable when the storage does not answer.
        """

    def write_snapshot(
        self,
        metadata: Json,
        added: Iterable[DataFileEntry],
        removed: Collection[str],
        *,
        snapshot_id: int,
        now_ms: int,
        summary_extra: Mapping[str, str] | None = None,
    ) -> AddSnapshot:
        """Write the manifests of a child of main's head; what it wrote is in the answer, for a refused commit.

        Added files are written down as they come, and best come in the order of their partitions.
        """

    def live_files(self, metadata: Json) -> Iterator[LiveFile]:
        """All data and delete files of main's head."""

    def delete(self, location: str) -> None:
        """Remove one file that nothing refers to; nothing happens when it is not there."""

    def delete_directory(self, location: str) -> None:
        """Remove a directory of Firn's own that nothing refers to, and all in it; fine when it is not there."""
