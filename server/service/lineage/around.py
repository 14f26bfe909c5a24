"""Edges that the server derives from a table's settings: its Hive table, the topic of its log, and its consumers."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.keyed.spec import LOG_PREFIX, LOG_TOPIC
from catalog.lineage.node import Node
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.lineage import Direction, EdgeOrigin, NodeKind
from server.service.lineage.shown import Graph, ShownEdge, ShownNode


def list_surroundings(
    uow: UnitOfWork, graph: Graph, direction: Direction
) -> tuple[Sequence[ShownNode], Sequence[ShownEdge]]:
    """The Hive tables and topics of the table and of those before it, and the table's consumers."""
    nodes: dict[str, ShownNode] = {}
    edges: list[ShownEdge] = []
    if direction is not Direction.DOWNSTREAM:
        for source, target, origin in [*_list_hive_tables(graph), *_list_topics(uow, graph)]:
            nodes.setdefault(source.key, ShownNode(source.key, source, distance=(target.distance or 0) - 1))
            edges.append(ShownEdge(source.key, target.id, origin))
    if direction is not Direction.UPSTREAM:
        for consumer in _list_consumers(uow, graph):
            nodes[consumer.key] = ShownNode(consumer.key, consumer, distance=1)
            edges.append(ShownEdge(graph.root, consumer.key, EdgeOrigin.CONSUMER))
    return list(nodes.values()), edges


def _list_upstream(graph: Graph) -> list[ShownNode]:
    return [node for node in graph.nodes if node.relation is not None and (node.distance or 0) <= 0]


def _list_hive_tables(graph: Graph) -> list[tuple[Node, ShownNode, EdgeOrigin]]:
    return [
        (Node(NodeKind.HIVE_TABLE, node.relation.hive_name, node.relation.catalog), node, EdgeOrigin.HIVE)
        for node in _list_upstream(graph)
        if node.relation is not None and node.relation.hive_name is not None
    ]


def _list_topics(uow: UnitOfWork, graph: Graph) -> list[tuple[Node, ShownNode, EdgeOrigin]]:
    """The topics of keyed tables, whose settings are properties of base: three queries for all of them."""
    nodes = {
        node.relation.id: node
        for node in _list_upstream(graph)
        if node.relation is not None and node.relation.kind is RelationKind.KEYED
    }
    keyed = uow.keyed.get_many(list(nodes))
    stats = uow.stats.get_many([table.base_id for table in keyed.values()])
    topics = []
    for relation_id, table in keyed.items():
        properties = stats[table.base_id].properties if table.base_id in stats else {}
        topic = properties.get(LOG_TOPIC)
        if topic:
            within = properties.get(f"{LOG_PREFIX}connection") or properties.get(f"{LOG_PREFIX}brokers") or ""
            topics.append((Node(NodeKind.TOPIC, topic, within), nodes[relation_id], EdgeOrigin.LOG))
    return topics


def _list_consumers(uow: UnitOfWork, graph: Graph) -> list[Node]:
    root = next(node for node in graph.nodes if node.id == graph.root)
    if root.relation is None or root.relation.kind is not RelationKind.KEYED:
        return []
    return [Node(NodeKind.CONSUMER, consumer.name, graph.root) for consumer in uow.consumers.list(root.relation.id)]
