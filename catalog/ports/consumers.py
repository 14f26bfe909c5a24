"""The database's consumers of changes; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from catalog.keyed.consumer import Consumer
from catalog.names import RelationId


class Consumers(Protocol):
    """The consumers of keyed tables, by name."""

    def find(self, relation_id: RelationId, name: str) -> Consumer | None: ...

    def list(self, relation_id: RelationId) -> Sequence[Consumer]:
        """All consumers of a table, by name."""

    def put(self, consumer: Consumer) -> None:
        """Add the consumer, or replace it."""

    def remove(self, relation_id: RelationId, name: str) -> bool:
        """Remove the consumer; False if there is none."""
