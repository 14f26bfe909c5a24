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
    """One entry of a catalog's list of what was dropped. A table's entry has the table's id."""

    id: UUID
    catalog: CatalogName
    path: tuple[str, ...]
    """Its name then, part by part."""
    kind: DroppedKind
    state: DroppedState
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    """Whether its files are deleted once it is kept no longer."""
    parent_id: UUID | None = None
    """The namespace's entry, when it was dropped with its namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a namespace: its own properties and those of the namespaces below it, by encoded name."""
    progress: PurgeProgress = NO_PROGRESS
    error: str | None = None
    """Why the last try to purge it stopped."""

    @property
    def name(self) -> str:
        """As people write it."""
        return join_name(self.path)

    @property
    def table_name(self) -> TableName:
        """Of anything but a namespace."""
        return TableName(self.path[:-1], self.path[-1])
