"""The publisher: the one Firn that may publish to a Hive table. A parameter of the table in the metastore names it.

With two publishers, each would take the other's rows for writes of Hive's side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from catalog.names import RelationId
from catalog.tables.relation import Relation

PUBLISHER = "firn.owner"
"""The table's parameter in the metastore: an id for servers, then words for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """The Firn table over a Hive table that publishes to it."""

    relation_id: RelationId | None
    """None if the parameter holds no id."""
    words: str

    def __str__(self) -> str:
        return f"{self.relation_id} {self.words}"


def read_publisher(parameters: Mapping[str, str]) -> Publisher | None:
    """Read the publisher from a Hive table's parameters; None for a table that was never published."""
    value = parameters.get(PUBLISHER)
    if value is None:
        return None
    first, _, words = value.partition(" ")
    try:
        return Publisher(relation_id=RelationId(UUID(first)), words=words or first)
    except ValueError:
        return Publisher(relation_id=None, words=value)


def make_publisher(relation: Relation, warehouse: str) -> Publisher:
    """The publisher that a table of this Firn writes there."""
    return Publisher(relation_id=relation.id, words=f"{relation.catalog}.{relation.name} in {warehouse}")
