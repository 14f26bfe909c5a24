"""The graph around a table: a walk over stored edges, a few queries a step, without a scan of all tables.

The walk shows and passes only what the caller may read (decision 161). So nothing tells of a hidden table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from catalog.access.privileges import Securable
from catalog.errors import NoSuchTable
from catalog.lineage.node import Node, StoredEdge, key_of_relation
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.lineage import DEFAULT_DEPTH, Direction, EdgeOrigin, NodeKind
from server.service.access.visibility import Visibility
from server.service.lineage.around import list_surroundings
from server.service.lineage.columns import restrict_to_column
from server.service.lineage.shown import Graph, ShownEdge, ShownNode

MOST_NODES = 300
MOST_EDGES = 1_000
"""Edges of one step."""


_ById = Mapping[RelationId, Relation]
_ByName = Mapping[tuple[CatalogName, TableName], Relation]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRequest:
    """The part of the graph that somebody asks for."""

    direction: Direction = Direction.BOTH
    depth: int = DEFAULT_DEPTH
    column: str | None = None


@dataclass(frozen=True)
class LineageGraphs:
    """Shows the lineage of tables and views."""

    database: Database

    def show(self, catalog: CatalogName, table: TableName, visible: Visibility, request: LineageRequest) -> Graph:
        """The graph around a table or view; NoSuchTable."""
        with self.database.reading() as uow:
            relation = uow.relations.find(catalog, table)
            if relation is None or relation.kind.is_store:
                raise NoSuchTable(f"Table does not exist: {table}")
            walk = _Walk(uow, visible, with_columns=request.column is not None)
            root = walk.begin(relation)
            if request.direction is not Direction.DOWNSTREAM:
                walk.go(root, request.depth, is_upstream=True)
            if request.direction is not Direction.UPSTREAM:
                walk.go(root, request.depth, is_upstream=False)
            graph = walk.build(root)
            nodes, edges = list_surroundings(uow, graph, request.direction)
            graph = replace(graph, nodes=[*graph.nodes, *nodes], edges=[*graph.edges, *edges])
        return graph if request.column is None else restrict_to_column(graph, request.column)


@dataclass(slots=True)
class _Walk:
    """One walk over the graph. A table has several keys, of which the one by its id is that of its node."""

    uow: UnitOfWork
    visible: Visibility
    with_columns: bool
    nodes: dict[str, ShownNode] = field(default_factory=dict)
    """By the id of the node."""
    ids: dict[str, str | None] = field(default_factory=dict)
    """The id of a node by each of its keys; None for nodes that the caller may not see."""
    edges: dict[tuple[str, str, EdgeOrigin], ShownEdge] = field(default_factory=dict)
    is_cut: bool = False

    def begin(self, relation: Relation) -> str:
        node_id = self._add_relation(relation)
        assert node_id is not None  # the guard has checked the table of the request
        self.nodes[node_id] = replace(self.nodes[node_id], distance=0)
        return node_id

    def go(self, root: str, depth: int, *, is_upstream: bool) -> None:
        """Walk `depth` steps from the root. A computation between two tables is no step."""
        seen, level = {root}, {root}
        for step in range(1, depth + 1):
            new = self._step(level, step, is_upstream=is_upstream) - seen
            seen |= new
            processes = {node_id for node_id in new if self.nodes[node_id].node.is_process}
            if processes:
                behind = self._step(processes, step, is_upstream=is_upstream) - seen
                seen |= behind
                new |= behind
            level = {node_id for node_id in new - processes if self.nodes[node_id].is_passed}
            if not level or self.is_cut:
                return

    def _step(self, level: Collection[str], step: int, *, is_upstream: bool) -> set[str]:
        """Add the edges at these nodes; returns the nodes at their other ends."""
        keys = {key for node_id in level for key in self.nodes[node_id].keys}
        read = self.uow.lineage.edges_into if is_upstream else self.uow.lineage.edges_from
        edges = read(keys, limit=MOST_EDGES + 1, with_columns=self.with_columns)
        self.is_cut |= len(edges) > MOST_EDGES
        edges = edges[:MOST_EDGES]
        self._resolve({key for edge in edges for key in (edge.source, edge.target)})
        reached = set[str]()
        for edge in edges:
            source, target = self.ids.get(edge.source), self.ids.get(edge.target)
            if source is None or target is None or source == target:
                continue
            other = source if is_upstream else target
            self._set_distance(other, -step if is_upstream else step)
            self._add_edge(source, target, edge)
            reached.add(other)
        return reached

    def _set_distance(self, node_id: str, distance: int) -> None:
        if self.nodes[node_id].distance is None:
            self.nodes[node_id] = replace(self.nodes[node_id], distance=distance)

    def _add_edge(self, source: str, target: str, edge: StoredEdge) -> None:
        """Two edges of one table, by its id and by its name, are one edge."""
        before = self.edges.get((source, target, edge.origin))
        if before is None or before.stored is None or before.stored.last_seen < edge.last_seen:
            self.edges[source, target, edge.origin] = ShownEdge(source, target, edge.origin, edge)

    def _resolve(self, keys: Iterable[str]) -> None:
        """Find the nodes of new keys: two queries for all of them."""
        new = [key for key in keys if key not in self.ids]
        stored = self.uow.lineage.nodes(new) if new else {}
        room = MOST_NODES - len(self.nodes)
        self.is_cut |= len(stored) > room
        stored = dict(list(stored.items())[: max(0, room)])
        by_id = self.uow.relations.get_many([n.relation_id for n in stored.values() if n.relation_id is not None])
        named = [node for node in stored.values() if _is_named_table(node)]
        by_name = self.uow.lineage.find_named([(CatalogName(node.within), node.table_name) for node in named])
        for key, node in stored.items():
            self.ids[key] = self._add_stored(node, by_id, by_name)

    def _add_stored(self, node: Node, by_id: _ById, by_name: _ByName) -> str | None:
        if node.relation_id is not None:
            relation = by_id.get(node.relation_id)
            return None if relation is None else self._add_relation(relation)
        if _is_named_table(node):
            catalog, name = CatalogName(node.within), node.table_name
            relation = by_name.get((catalog, name))
            if relation is not None:
                return self._add_relation(relation)
            if not self.visible.readable(Securable.of(catalog, name)):
                return None
        self.nodes.setdefault(node.key, ShownNode(node.key, node, keys=(node.key,)))
        return node.key

    def _add_relation(self, relation: Relation) -> str | None:
        node_id = key_of_relation(relation.id)
        if node_id in self.nodes:
            return node_id
        if relation.kind.is_store or not self.visible.readable(Securable.of(relation.catalog, relation.name)):
            return None
        named = Node.of_name(relation.catalog, relation.name)
        if relation.kind is RelationKind.VIEW:
            named = replace(named, kind=NodeKind.VIEW)
        keys = (node_id, Node.of_name(relation.catalog, relation.name).key)
        self.nodes[node_id] = ShownNode(node_id, named, keys=keys, relation=relation)
        self.ids |= dict.fromkeys(keys, node_id)
        return node_id

    def build(self, root: str) -> Graph:
        """The graph without computations of pipelines whose table the caller may not see."""
        written = {edge.source for edge in self.edges.values()}
        shown = {
            node_id: node
            for node_id, node in self.nodes.items()
            if node.distance is not None and (node.node.kind is not NodeKind.PIPELINE or node_id in written)
        }
        edges = [edge for edge in self.edges.values() if edge.source in shown and edge.target in shown]
        return Graph(root=root, nodes=list(shown.values()), edges=edges, ids=dict(self.ids), is_cut=self.is_cut)


def _is_named_table(node: Node) -> bool:
    return node.kind is NodeKind.TABLE and node.relation_id is None
