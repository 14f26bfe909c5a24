"""Ports of the work with Hive: the index of its tables, the baselines of linked tables, and the metastores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.hive.checkpoint import PublishPlan, SyncPlan
from catalog.hive.events import HiveEvent
from catalog.hive.link import HiveLink
from catalog.hive.table_index import (
    EVERY_TABLE,
    DatabaseCounts,
    HiveTableFilter,
    HiveTableOrder,
    IndexedBlocker,
    IndexedTable,
    LinkSummary,
    MigrationCount,
    TableFacts,
)
from catalog.hive.wave import Wave
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.jobs.operation import BatchId, OperationId
from catalog.names import CatalogName, RelationId
from catalog.ports.metastore import Metastore
from catalog.ports.page import Page


class HiveTables(Protocol):
    """The index of a metastore's tables; a background task maintains it."""

    def replace(
        self,
        catalog: CatalogName,
        database: str,
        tables: Sequence[IndexedTable],
        sizes: Mapping[str, TableFacts] | None = None,
    ) -> int:
        """Replace the index of one database; returns the number of changed rows.

        `sizes` of tables, by DATABASE.TABLE, replace those of statistics and checks.
        """

    def keep_databases(self, catalog: CatalogName, databases: Collection[str]) -> None:
        """Remove the tables of all other databases."""

    def find(self, catalog: CatalogName, database: str, name: str) -> IndexedTable | None: ...

    def list(
        self,
        catalog: CatalogName,
        only: HiveTableFilter = EVERY_TABLE,
        *,
        order: HiveTableOrder = HiveTableOrder.NAME,
        limit: int,
        cursor: str | None = None,
    ) -> Page[IndexedTable]:
        """Tables with equal values are in order of databases and names."""

    def count(self, catalog: CatalogName, only: HiveTableFilter = EVERY_TABLE) -> Sequence[MigrationCount]:
        """Count the tables by database, state and first blocker."""

    def blocked_by(self, catalog: CatalogName, code: str, database: str) -> IndexedTable | None:
        """Find a table of the database with this first blocker, as an example."""

    def note_check(
        self, catalog: CatalogName, full_name: str, facts: TableFacts, blockers: Sequence[IndexedBlocker], now: datetime
    ) -> None:
        """Store the findings of a check or an upgrade; a table that the index does not have stays unknown."""

    def note_failure(self, catalog: CatalogName, full_name: str, failure: str | None) -> None:
        """Store why an upgrade failed, or that the last one did not."""

    def databases(self, catalog: CatalogName) -> Sequence[DatabaseCounts]:
        """In order of names."""


class HiveWaves(Protocol):
    """Waves of upgrades and checks; the operations of a wave are a batch."""

    def add(self, wave: Wave) -> None: ...
    def find(self, batch: BatchId) -> Wave | None:
        """Not every batch belongs to a wave."""

    def lock(self, batch: BatchId) -> Wave | None:
        """The wave, locked until the transaction ends. Lock it before its operations, against deadlocks."""

    def put(self, wave: Wave) -> None: ...
    def list(self, catalog: CatalogName, *, limit: int, cursor: str | None = None) -> Page[Wave]:
        """Newest first."""

    def forget_checks(self, before: datetime) -> int:
        """Delete waves of checks that started before; returns their number."""


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
