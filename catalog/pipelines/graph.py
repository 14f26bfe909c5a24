"""The graph of the tables of all pipelines in a catalog: an edge leads from each input to the table that reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catalog.errors import PipelineCycle
from catalog.names import TableName, fold_case

Edges = Mapping[TableName, Collection[TableName]]
"""The inputs of each table."""


def check_no_cycle(edges: Edges) -> None:
    """Raise PipelineCycle, with the path, if a table would be computed from itself."""
    folded = {fold_case(str(table)): [fold_case(str(name)) for name in inputs] for table, inputs in edges.items()}
    names = {fold_case(str(table)): str(table) for table in edges}
    settled: set[str] = set()
    for start in folded:
        _walk(start, folded, names, settled)


def _walk(start: str, edges: Mapping[str, list[str]], names: Mapping[str, str], settled: set[str]) -> None:
    """Follow the inputs of a table depth first. Without recursion, because a chain may have thousands of tables."""
    path: list[str] = []
    on_path: set[str] = set()
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        table, is_left = stack.pop()
        if is_left:
            path.pop()
            on_path.discard(table)
            settled.add(table)
        elif table in on_path:
            cycle = [*path[path.index(table) :], table]
            raise PipelineCycle(
                f"a table would be computed from itself: {' reads '.join(names[name] for name in cycle)}",
                hint="remove one of these inputs",
            )
        elif table not in settled:
            path.append(table)
            on_path.add(table)
            stack.append((table, True))
            stack += [(name, False) for name in edges[table] if name in edges]


def sort_by_inputs(edges: Edges) -> list[TableName]:
    """The tables, each after those that it reads; of a graph without cycles."""
    ordered: dict[TableName, None] = {}
    for start in edges:
        stack: list[tuple[TableName, bool]] = [(start, False)]
        while stack:
            table, is_left = stack.pop()
            if is_left:
                ordered.setdefault(table)
            elif table not in ordered:
                stack.append((table, True))
                stack += [(name, False) for name in edges[table] if name in edges and name not in ordered]
    return list(ordered)
