"""Ports of the work with Hive: the index of its tables, the baselines of linked tables, and the metastores."""

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
    """The index of a metastore's tables; a background task maintains it."""

    def replace(self, catalog: CatalogName, database: str, tables: Sequence[IndexedTable]) -> int:
        """Replace the index of one database; returns the number of changed rows."""

    def keep_databases(self, catalog: CatalogName, databases: Collection[str]) -> None:
        """Remove the tables of all other databases."""

    def find(self, catalog: CatalogName, database: str, name: str) -> IndexedTable | None: ...

    def list(
        self,
        catalog: CatalogName,
        *,
        database: str | None = None,
        search: str | None = None,
        state: HiveTableState | None = None,
        out_of_sync: bool = False,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """In order of databases and names; `out_of_sync` selects upgraded tables that have drifted."""

    def databases(self, catalog: CatalogName) -> Sequence[DatabaseCounts]:
        """In order of names."""


class Baselines(Protocol):
    """The baseline of each partition of a linked table (docs/protocols.md#hive-sync-and-publish)."""

    def of(self, relation_id: RelationId) -> Mapping[str, Json]: ...
    def elsewhere(self, relation_id: RelationId, directories: Collection[str]) -> Sequence[str]:
        """The locations, as written, of partitions outside of these directories."""

    def put(self, relation_id: RelationId, baselines: Mapping[str, Json]) -> None: ...
    def remove(self, relation_id: RelationId, partitions: Collection[str]) -> None: ...
    def link(self, relation_id: RelationId) -> HiveLink | None: ...
    def put_link(self, relation_id: RelationId, link: HiveLink) -> None: ...
    def give_back(self, relation_id: RelationId, operation_id: OperationId | None) -> None:
        """Record the operation that downgrades the table; None if there is none."""

    def given_back_by(self, relation_id: RelationId) -> OperationId | None: ...
    def summaries(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, LinkSummary]: ...
    def remember(self, relation_id: RelationId, events: Sequence[HiveEvent], now: datetime) -> None:
        """Record the events of a sync or publish; old events are deleted."""

    def events(
        self, relation_id: RelationId, *, partition: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[HiveEvent]:
        """Newest first; with `partition`, only its events."""

    def delete(self, relation_id: RelationId) -> None: ...
    def stage(self, job_id: JobId, plan: SyncPlan | PublishPlan) -> None: ...
    def staged(self, job_id: JobId) -> SyncPlan | PublishPlan | None: ...


class Metastores(Protocol):
    """The metastores of catalogs."""

    def of(self, uri: str) -> Metastore:
        """The metastore at these addresses. It connects at the first call."""
