"""The part of a graph that one column of its table comes from, and that is computed from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from catalog.names import fold_case
from server.service.lineage.shown import ColumnPair, Graph, ShownEdge

_Column = tuple[str, str]
"""The id of a node, and the folded name of a column."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A column of `target` comes from a column of the node `source`, as `edge` says."""

    source: _Column
    target: _Column
    pair: ColumnPair
    edge: ShownEdge


def restrict_to_column(graph: Graph, column: str) -> Graph:
    """The graph with the columns behind and after one column of its root, and only the edges between them.

    Edges whose columns nobody knows lead nowhere; so an empty graph does not say that nothing reads the column.
    """
    links = list(_list_links(graph))
    root = (graph.root, fold_case(column))
    kept = {*_follow(links, root, is_upstream=True), *_follow(links, root, is_upstream=False)}
    columns: dict[str, dict[str, str]] = defaultdict(dict)
    columns[graph.root][root[1]] = column
    pairs: dict[int, list[ColumnPair]] = defaultdict(list)
    for link in (links[number] for number in sorted(kept)):
        columns[link.source[0]].setdefault(link.source[1], link.pair.source_column)
        columns[link.target[0]].setdefault(link.target[1], link.pair.target_column)
        pairs[id(link.edge)].append(link.pair)
    return _keep(graph, columns, pairs)


def _list_links(graph: Graph) -> Iterator[_Link]:
    """The pairs of columns between nodes that the caller may see."""
    shown = {node.id for node in graph.nodes}
    for edge in graph.edges:
        stored = edge.stored
        if stored is None or stored.columns is None:
            continue
        for target_column, sources in stored.columns.items():
            for key, source_column in sources:
                source = graph.ids.get(key)
                if source is not None and source in shown:
                    pair = ColumnPair(source=source, source_column=source_column, target_column=target_column)
                    yield _Link((source, fold_case(source_column)), (edge.target, fold_case(target_column)), pair, edge)


def _follow(links: list[_Link], root: _Column, *, is_upstream: bool) -> set[int]:
    """The numbers of the links on the ways from a column."""
    by_end: Mapping[_Column, list[int]] = defaultdict(list)
    for number, link in enumerate(links):
        by_end[link.target if is_upstream else link.source].append(number)
    followed, waiting, seen = set[int](), [root], {root}
    while waiting:
        for number in by_end.get(waiting.pop(), ()):
            followed.add(number)
            other = links[number].source if is_upstream else links[number].target
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return followed


def _keep(graph: Graph, columns: Mapping[str, Mapping[str, str]], pairs: Mapping[int, list[ColumnPair]]) -> Graph:
    """The nodes with columns, the computations between them, and the edges of both."""
    computations = {edge.source for edge in graph.edges if id(edge) in pairs}
    read = {(pair.source, edge.source) for edge in graph.edges for pair in pairs.get(id(edge), ())}
    kept = computations | set(columns)
    return replace(
        graph,
        nodes=[
            replace(node, columns=tuple(columns.get(node.id, {}).values())) for node in graph.nodes if node.id in kept
        ],
        edges=[
            replace(edge, columns=tuple(pairs.get(id(edge), ())))
            for edge in graph.edges
            if id(edge) in pairs or (edge.source, edge.target) in read
        ],
    )
