"""Which Firn points a Hive table at what it has published: one alone, as a parameter of the table says.

Two that did so would each take the other's rows for what Hive's side has written.
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
    """None where somebody has written what is no id."""
    words: str

    def __str__(self) -> str:
        return f"{self.relation_id} {self.words}"


def read_publisher(parameters: Mapping[str, str]) -> Publisher | None:
    """As a Hive table's parameters say; None for a table that was never published."""
    told = parameters.get(PUBLISHER)
    if told is None:
        return None
    first, _, words = told.partition(" ")
    try:
        return Publisher(relation_id=RelationId(UUID(first)), words=words or first)
    except ValueError:
        return Publisher(relation_id=None, words=told)


def make_publisher(relation: Relation, warehouse: str) -> Publisher:
    """What a table of ours writes there."""
    return Publisher(relation_id=relation.id, words=f"{relation.catalog}.{relation.name} in {warehouse}")
