"""The list of dropped tables, views and namespaces, from which undrop brings them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from catalog.names import CatalogName, TableName
from catalog.removal.purge import NO_PROGRESS, PurgeProgress
from firn.protocol.dropped import DroppedKind, DroppedState
from firn.protocol.names import join_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One entry of a catalog's list of dropped objects. A table's entry has the table's id."""

    id: UUID
    catalog: CatalogName
    path: tuple[str, ...]
    """Its name at the drop, in parts."""
    kind: DroppedKind
    state: DroppedState
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    """Whether its files are deleted after `keep_until`."""
    parent_id: UUID | None = None
    """The namespace's entry, if it was dropped with its namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For a namespace: the properties of it and of the namespaces below it, by encoded name."""
    progress: PurgeProgress = NO_PROGRESS
    error: str | None = None
    """Why the last purge of it stopped."""

    @property
    def name(self) -> str:
        """The name as people write it."""
        return join_name(self.path)

    @property
    def table_name(self) -> TableName:
        """The name of a table or view."""
        return TableName(self.path[:-1], self.path[-1])
