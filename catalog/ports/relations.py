"""The database's tables and views, with their counters and keyed tables; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.keyed.spec import KeyedTable, Version
from catalog.names import CatalogName, Namespace, RelationId, TableName
from catalog.ports.page import Page
from catalog.tables.relation import (
    ListedRelation,
    Pointer,
    Relation,
    RelationKind,
    TableStats,
)
from catalog.tables.table_status import PlanRequest, PlanResult


class Relations(Protocol):
    """Tables, views and keyed tables."""

    def add(self, relation: Relation) -> None: ...
    def get(self, relation_id: RelationId) -> Relation: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Relation]: ...
    def lock_existing(self, relation_ids: Collection[RelationId]) -> Collection[RelationId]:
        """The relations among these that exist; they then exist until this transaction ends.

        Does not wait for relations that a concurrent transaction removes or renames, and leaves them out.
        """

    def lock_pointer(self, relation_id: RelationId) -> str | None:
        """The metadata location, which no commit moves until this transaction ends; None without one."""

    def find(self, catalog: CatalogName, name: TableName) -> Relation | None: ...
    def find_name_holder(self, catalog: CatalogName, name: TableName) -> Relation | None:
        """The relation that prevents another one with this name: see Catalog.unique. Not
        for lookups, which are exact.
        """

    def stores_of(self, owner_id: RelationId) -> Sequence[Relation]: ...
    def quarantines_of(self, owner_ids: Collection[RelationId]) -> Mapping[RelationId, RelationId]:
        """The quarantines of those of these keyed tables that have one."""

    def list(
        self,
        catalog: CatalogName,
        namespace: Namespace | None,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
        search: str | None = None,
    ) -> Page[Relation]:
        """By namespace and name; `namespace` None means all; `search` is part of a name."""

    def below(self, catalog: CatalogName, namespace: Namespace, *, limit: int) -> Sequence[Relation]:
        """Tables, views and keyed tables in a namespace and in all namespaces below it, by name; no stores."""

    def names(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[ListedRelation]:
        """The relations of a namespace, by name. Engines call this often, so it is fast."""

    def linked_to_hive(self, catalog: CatalogName) -> Sequence[Relation]:
        """Relations that are linked to Hive tables."""

    def of_hives(self, catalog: CatalogName, hive_names: Collection[str]) -> Mapping[str, Relation]:
        """The relations that these Hive tables were upgraded to, by Hive name."""

    def of_hive(self, catalog: CatalogName, hive_name: str) -> Relation | None:
        """The relation that a Hive table, named `database.table`, was upgraded to, whatever its name is now."""

    def find_at(self, locations: Collection[str]) -> Sequence[Relation]:
        """Relations at one of these locations, in all catalogs."""

    def move_pointer(self, relation: Relation, to: Pointer, now: datetime) -> bool:
        """Compare-and-set: point at new metadata if the version is still the relation's; otherwise False."""

    def rename(self, relation: Relation, to: TableName) -> None:
        """AlreadyExists if the new name is taken, NoSuchTable if the relation was dropped meanwhile."""


class Stats(Protocol):
    """Counters of tables; commits update them."""

    def get(self, relation_id: RelationId) -> TableStats: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStats]: ...
    def put(self, stats: TableStats, *, plan_after: datetime) -> None:
        """Insert or replace the counters; the planner plans the table from `plan_after` on."""

    def request_plans(self, relation_ids: Collection[RelationId], at: datetime) -> None:
        """Let the planner plan these tables, plain or keyed, at `at` or earlier."""

    def request_plans_below(self, catalog: CatalogName, namespace: Namespace, at: datetime) -> None:
        """The same for all tables of a namespace and of those below it; () is the whole catalog."""

    def plan_unassessed(self, at: datetime) -> None:
        """The same for all tables without an assessment."""

    def due(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """Tables and stores to plan by then, longest due first."""

    def load_plan_requests(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, PlanRequest]:
        """The plan requests of these tables and stores so far."""

    def record_plans(self, done: Collection[PlanResult], now: datetime) -> None:
        """Record that these were planned. Requests that came meanwhile stay due."""


class KeyedTables(Protocol):
    """Stores, watermarks and pending counts of keyed tables."""

    def add(self, keyed: KeyedTable) -> None: ...
    def get(self, relation_id: RelationId) -> KeyedTable: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, KeyedTable]: ...
    def lock(self, relation_id: RelationId) -> KeyedTable:
        """Its current row, locked until this transaction ends."""

    def put(self, keyed: KeyedTable) -> None: ...
    def remove(self, relation_id: RelationId) -> None: ...
    def add_version(self, version: Version) -> None: ...
    def versions(self, relation_id: RelationId, *, limit: int, before: int | None = None) -> Sequence[Version]: ...

    def versions_between(self, relation_id: RelationId, first: int, last: int) -> Sequence[Version]:
        """The versions that are left with these numbers, both included; oldest first."""

    def version_at(self, relation_id: RelationId, at: datetime) -> Version | None:
        """The newest version that was committed by then."""

    def forget_versions(self, relation_id: RelationId, *, base: Collection[int], change: Collection[int]) -> None:
        """Delete the versions that name one of these snapshots of base or change."""
