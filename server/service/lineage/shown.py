"""The nodes and edges of a graph that the server shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.lineage.node import Node, StoredEdge
from catalog.tables.relation import Relation
from firn.protocol.lineage import EdgeOrigin, NodeKind

_LEAVES = frozenset({NodeKind.ENGINE, NodeKind.WRITER, NodeKind.CONSUMER, NodeKind.TOPIC, NodeKind.HIVE_TABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPair:
    """A column of an edge's target comes from a column of the node `source`."""

    source: str
    source_column: str
    target_column: str


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node with its keys. `distance` counts steps from the root, upstream negative; None until a step reaches it."""

    id: str
    node: Node
    keys: tuple[str, ...] = ()
    relation: Relation | None = None
    distance: int | None = None
    columns: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether a walk goes on behind it: an engine that reads two tables does not connect them."""
        return self.node.kind not in _LEAVES


@dataclass(frozen=True, slots=True)
class ShownEdge:
    """An edge between two shown nodes; `stored` is None where the server derives it from a table's settings."""

    source: str
    target: str
    origin: EdgeOrigin
    stored: StoredEdge | None = None
    columns: tuple[ColumnPair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph around `root`. `ids` has the node of each key that the caller may see."""

    root: str
    nodes: Sequence[ShownNode]
    edges: Sequence[ShownEdge]
    ids: Mapping[str, str | None]
    is_cut: bool = False
