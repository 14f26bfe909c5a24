"""Nodes and edges of the lineage graph, as the database keeps them (decision 161)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Self
from uuid import UUID

from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from firn.protocol.lineage import EdgeOrigin, NodeKind

LONGEST_NAME = 1_024
"""Characters of a namespace, and of a name, of jobs and datasets outside Firn."""
_KEY_DIGITS = 32

Columns = Mapping[str, Sequence[tuple[str, str]]]
"""For each column of an edge's target: the columns that it comes from, as keys of nodes and names of columns."""


@dataclass(frozen=True, slots=True)
class Node:
    """One end of an edge. `within` is a catalog, a pipeline or an OpenLineage namespace.

    A table has two keys. By its id it stays the same table after a rename; views, pipelines and events name it.
    """

    kind: NodeKind
    name: str
    within: str = ""
    namespace: str = ""
    relation_id: RelationId | None = None

    @property
    def key(self) -> str:
        """A digest, because a database's index cannot hold every name."""
        if self.relation_id is not None:
            return key_of_relation(self.relation_id)
        parts = (str(self.kind), self.within, self.namespace, self.name)
        return _digest("\0".join(parts))

    @classmethod
    def of_relation(cls, relation_id: RelationId) -> Self:
        """A table or view by its id."""
        return cls(NodeKind.TABLE, "", relation_id=relation_id)

    @classmethod
    def of_name(cls, catalog: CatalogName, name: TableName) -> Self:
        """A table or view by its name."""
        return cls(NodeKind.TABLE, name.name, catalog, encode_namespace(name.namespace))

    @property
    def table_name(self) -> TableName:
        """The name of a node that `of_name` has built."""
        return TableName(decode_namespace(self.namespace), self.name)

    @property
    def is_process(self) -> bool:
        """Whether a walk goes through the node without a step: it computes tables from others."""
        return self.kind in (NodeKind.PIPELINE, NodeKind.JOB)


def key_of_relation(relation_id: RelationId) -> str:
    """The key of a table or view by its id."""
    return _digest(f"relation\0{relation_id.hex}")


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:_KEY_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`target` comes from `source`."""

    source: Node
    target: Node
    origin: EdgeOrigin
    seen_at: datetime
    principal: str | None = None
    """Who has sent the event or commit; None for definitions, and without access control."""
    columns: Columns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEdge:
    """An edge of the database, by the keys of its nodes."""

    id: int
    source: str
    target: str
    origin: EdgeOrigin
    first_seen: datetime
    last_seen: datetime
    principal: str | None
    has_columns: bool
    columns: Columns | None = None
    """None, too, in a graph that was requested without columns."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A view or pipeline whose edges the database lacks, or has of another version."""

    id: UUID
    version: int
