"""The stored lineage; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.lineage.node import Definition, Edge, Node, StoredEdge
from catalog.names import CatalogName, RelationId, TableName
from catalog.tables.relation import Relation
from firn.protocol.lineage import EdgeOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroup:
    """Commits of snapshots to one table by one engine or writer. Jobs of optimizers are none, but runs of pipelines."""

    relation_id: RelationId
    engine: str | None
    writer_id: str | None
    principal: str | None
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanGroup:
    """Reports of scans of one table by one engine."""

    relation_id: RelationId
    engine: str | None
    principal: str | None
    last_at: datetime


class Lineage(Protocol):
    """Nodes and edges of the lineage graph."""

    def nodes(self, keys: Collection[str]) -> Mapping[str, Node]:
        """The nodes with these keys."""

    def edges_into(self, keys: Collection[str], *, limit: int, with_columns: bool) -> Sequence[StoredEdge]:
        """The edges to these nodes, those of definitions first, then the newest."""

    def edges_from(self, keys: Collection[str], *, limit: int, with_columns: bool) -> Sequence[StoredEdge]:
        """The edges from these nodes, those of definitions first, then the newest."""

    def find_named(
        self, names: Collection[tuple[CatalogName, TableName]]
    ) -> Mapping[tuple[CatalogName, TableName], Relation]:
        """The tables and views with these names, in one query."""

    def observe(self, edges: Sequence[Edge]) -> None:
        """Add edges of commits, scans and events, or move their `last_seen`."""

    def count_edges_at(self, keys: Collection[str], origin: EdgeOrigin) -> Mapping[str, int]:
        """The edges of an origin at each of these nodes, at either end."""

    def existing_edges(self, edges: Sequence[Edge]) -> Collection[tuple[str, str]]:
        """The keys of source and target of those observed edges that are stored already."""

    def count_of_sender(self, principal: str | None, origin: EdgeOrigin, *, limit: int) -> int:
        """The edges that a principal has sent last, up to a limit."""

    def replace_definition(self, kind: str, definition: Definition, edges: Sequence[Edge]) -> None:
        """Store the edges of a view or pipeline instead of those of an earlier version."""

    def postpone_definition(self, kind: str, definition: Definition, until: datetime) -> None:
        """Read a definition again later, because it cannot be read now."""

    def changed_views(self, now: datetime, *, limit: int) -> Sequence[Relation]:
        """Views whose edges are not stored, or those of another version."""

    def changed_pipelines(self, now: datetime, *, limit: int) -> Sequence[Definition]:
        """Pipelines whose edges are not stored, or those of another version."""

    def gone_definitions(self, *, limit: int) -> Sequence[UUID]:
        """Views and pipelines with stored edges that do not exist any more."""

    def remove_definitions(self, definition_ids: Sequence[UUID]) -> None:
        """Remove the edges of definitions."""

    def touch_definition(self, definition_id: UUID, target: str, at: datetime) -> None:
        """A pipeline has committed to the node `target`."""

    def position(self, name: str) -> int | None:
        """The last number of a history that the edges know."""

    def set_position(self, name: str, position: int) -> None:
        """Store a position."""

    def newest_commit(self) -> int:
        """The number of the newest commit, 0 before the first."""

    def newest_report(self) -> int:
        """The number of the newest report, 0 before the first."""

    def commits_between(self, after: int, until: int) -> Sequence[CommitGroup]:
        """Commits of snapshots by table, engine and writer."""

    def scans_between(self, after: int, until: int) -> Sequence[ScanGroup]:
        """Reports of scans by table and engine."""

    def remove_before(self, moment: datetime, *, limit: int) -> int:
        """Remove observed edges that nobody has seen since, and nodes without edges; returns the number of edges."""
