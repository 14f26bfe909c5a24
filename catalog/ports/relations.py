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
    def held(self, relation_ids: Collection[RelationId]) -> Collection[RelationId]:
        """Those of them that are there, which they then are until this transaction ends.

        One that somebody is removing or renaming at this moment is not waited for and not among them.
        """

    def find(self, catalog: CatalogName, name: TableName) -> Relation | None: ...
    def holder(self, catalog: CatalogName, name: TableName) -> Relation | None:
        """What keeps a second one from having this name: see Catalog.unique. Not for lookups, which are exact."""

    def stores_of(self, owner_id: RelationId) -> Sequence[Relation]: ...

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
        """What is in a namespace, by name: the list that engines ask for, and therefore fast."""

    def linked_to_hive(self, catalog: CatalogName) -> Sequence[Relation]:
        """Relations that were upgraded from Hive tables and are still linked to them."""

    def of_hives(self, catalog: CatalogName, hive_names: Collection[str]) -> Mapping[str, Relation]:
        """What some of these Hive tables were upgraded to."""

    def of_hive(self, catalog: CatalogName, hive_name: str) -> Relation | None:
        """What a Hive table, named `database.table`, was upgraded to, whatever its name is by now."""

    def over(self, locations: Collection[str]) -> Sequence[Relation]:
        """Relations over one of these locations, of all catalogs."""

    def move_pointer(self, relation: Relation, to: Pointer, now: datetime) -> bool:
        """Compare-and-set: point at new metadata if the version is still the relation's; False when it is not."""

    def rename(self, relation: Relation, to: TableName) -> None:
        """AlreadyExists when the new name is taken, NoSuchTable when it was dropped meanwhile."""


class Stats(Protocol):
    """Counters per table, kept by commits."""

    def get(self, relation_id: RelationId) -> TableStats: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStats]: ...
    def put(self, stats: TableStats, *, plan_after: datetime) -> None:
        """Insert or replace; from `plan_after` on the planner looks at the table."""

    def look_again(self, relation_ids: Collection[RelationId], at: datetime) -> None:
        """Let the planner look at these tables, plain or keyed, at `at` or before."""

    def look_again_below(self, catalog: CatalogName, namespace: Namespace, at: datetime) -> None:
        """The same for all tables of a namespace and of those below it; () is the whole catalog."""

    def plan_unassessed(self, at: datetime) -> None:
        """The same for all tables that nobody has looked at yet."""

    def due(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """Tables and stores that are to be looked at by then, longest due first."""

    def looks(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, PlanRequest]:
        """What was asked for so far of these tables and stores."""

    def looked(self, done: Collection[PlanResult], now: datetime) -> None:
        """Note that these were looked at. What was asked for meanwhile stays due."""


class KeyedTables(Protocol):
    """Keyed tables' stores, watermarks and pending counts."""

    def add(self, keyed: KeyedTable) -> None: ...
    def get(self, relation_id: RelationId) -> KeyedTable: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, KeyedTable]: ...
    def lock(self, relation_id: RelationId) -> KeyedTable:
        """Its current row, kept from changing until this transaction ends."""

    def put(self, keyed: KeyedTable) -> None: ...
    def remove(self, relation_id: RelationId) -> None: ...
    def add_version(self, version: Version) -> None: ...
    def versions(self, relation_id: RelationId, *, limit: int, before: int | None = None) -> Sequence[Version]: ...

    def forget_versions(self, relation_id: RelationId, *, base: Collection[int], change: Collection[int]) -> None:
        """Drop the versions that name one of these snapshots of base or change."""
