"""`firn table lineage`: what a table comes from, and what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.health import TableArg
from firn.cli.show import moment
from firn.errors import Invalid
from firn.protocol.lineage import (
    DEEPEST,
    DEFAULT_DEPTH,
    Direction,
    LineageEdgeOut,
    LineageNodeOut,
    NodeKind,
    TableLineageGraphOut,
)

COLUMNS = ("step", "kind", "from", "to", "known from", "last seen")


def add_to(app: typer.Typer) -> None:
    """Add `firn table lineage`."""
    command(app, "lineage")(show_lineage)


def show_lineage(
    ctx: CliContext,
    table: TableArg,
    *,
    upstream: Annotated[bool, typer.Option("--upstream", help="Only what the table comes from.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="Only what reads the table.")] = False,
    depth: Annotated[int, typer.Option(min=1, max=DEEPEST, help="Steps from the table.")] = DEFAULT_DEPTH,
    column: Annotated[str | None, typer.Option(help="Only what concerns this column, where columns are known.")] = None,
) -> None:
    """Show which tables, views, pipelines, jobs and engines a table or view comes from, and which read it.

    A negative step leads towards the sources. You see only what you may read.
    """
    if upstream and downstream:
        raise Invalid("--upstream and --downstream exclude each other", hint="without them you see both")
    direction = Direction.UPSTREAM if upstream else Direction.DOWNSTREAM if downstream else Direction.BOTH
    graph = ctx.client.tables[table].lineage(direction=direction, depth=depth, column=column)
    ctx.show.emit(graph.json_value(), lambda: _show(ctx, graph))


def _show(ctx: CliContext, graph: TableLineageGraphOut) -> None:
    none = "no lineage is known" if graph.column is None else f"no lineage of the column {graph.column} is known"
    ctx.show.table(COLUMNS, list(_list_rows(graph)), none=none)
    if graph.is_cut:
        ctx.show.note("there is more: ask for fewer steps, or for one direction")


def _list_rows(graph: TableLineageGraphOut) -> Iterator[tuple[object, ...]]:
    nodes = {node.id: node for node in graph.nodes}

    def step(edge: LineageEdgeOut) -> int:
        source, target = nodes[edge.source].distance, nodes[edge.target].distance
        return source if source < 0 else target

    for edge in sorted(graph.edges, key=lambda edge: (step(edge), _describe(nodes[edge.source]))):
        source, target = nodes[edge.source], nodes[edge.target]
        pairs = ", ".join(f"{pair.source_column} → {pair.target_column}" for pair in edge.columns)
        known = f"{edge.origin}: {pairs}" if pairs else str(edge.origin)
        kind = source.kind if step(edge) < 0 else target.kind
        shown = str(kind).replace("_", " ")
        yield (step(edge), shown, _describe(source), _describe(target), known, moment(edge.last_seen))


def _describe(node: LineageNodeOut) -> str:
    if node.kind is NodeKind.PIPELINE:
        return f"{node.pipeline} ({node.name})"
    if node.namespace:
        return f"{node.namespace} {node.name}"
    return node.name if node.exists else f"{node.name} (does not exist)"
