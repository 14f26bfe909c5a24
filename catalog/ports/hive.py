"""What the services need to work beside Hive: the index of its tables, the ground of linked ones, their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

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
