"""The database's consumers of changes; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.keyed.consumer import Consumer
from catalog.names import CatalogName, RelationId, TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConsumer:
    """A consumer with its table's name, and the versions that it has not read."""

    consumer: Consumer
    catalog: CatalogName
    table: TableName
    lag_versions: int


class Consumers(Protocol):
    """The consumers of keyed tables, by name."""

    def find(self, relation_id: RelationId, name: str) -> Consumer | None: ...

    def list(self, relation_id: RelationId) -> Sequence[Consumer]:
        """All consumers of a table, by name."""

    def list_behind(self, *, limit: int) -> Sequence[NamedConsumer]:
        """The consumers of all tables that have versions to read. Those that expiry drops first come first."""

    def put(self, consumer: Consumer) -> None:
        """Add the consumer, or replace it."""

    def remove(self, relation_id: RelationId, name: str) -> bool:
        """Remove the consumer; False if there is none."""
