"""`firn pipeline graph|lineage`: how far tables of a pipeline are behind, and where their columns come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from firn.cli import pipeline_backfills
from firn.cli.context import CliContext, command
from firn.cli.pipeline_runs import NameArg
from firn.cli.show import moment
from firn.cli.watch import format_span
from firn.errors import NotFound
from firn.protocol.pipeline_graph import ColumnSourceOut, GraphOut, LineageOut, TableLineageOut

app = pipeline_backfills.app  # these are commands of `firn pipeline` too
EDGE_COLUMNS = ("table", "state", "reads", "changed", "behind", "target")
LINEAGE_COLUMNS = ("column", "computed from", "in the end from")


@command(app, "graph")
def show_graph(ctx: CliContext, name: NameArg) -> None:
    """Show which tables a pipeline computes from which, and how far each one is behind each of its inputs."""
    graph = ctx.client.pipelines[name].show_graph()
    rows = list(_list_edges(graph))
    ctx.show.emit(graph.json_value(), lambda: ctx.show.table(EDGE_COLUMNS, rows, none="no tables"))


def _list_edges(graph: GraphOut) -> Iterator[tuple[object, ...]]:
    tables = {node.table: node for node in graph.nodes}
    for edge in graph.edges:
        table = tables[edge.target]
        behind = None if edge.lag_seconds is None else format_span(edge.lag_seconds)
        if edge.has_changes is False:
            behind = "no"
        target = None if table.target_seconds is None else format_span(table.target_seconds)
        yield (edge.target, table.state, edge.source, moment(edge.changed_at), behind, target)


@command(app, "lineage")
def show_lineage(
    ctx: CliContext,
    name: NameArg,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One table (default: all).")] = None,
) -> None:
    """Show from which columns of its inputs each column is computed, and from which inputs of the pipeline in the end.

    Columns that only decide which rows there are, as in WHERE and ON, are not listed.
    """
    handle = ctx.client.pipelines[name]
    lineage = handle.show_lineage()
    chosen = lineage.tables
    if table is not None:
        full_name = handle.find_table(table)
        chosen = [entry for entry in lineage.tables if entry.table == full_name]
        if not chosen:
            raise NotFound(f"{name} has no table {table}", hint=f"`firn pipeline show {name}` lists them")
    ctx.show.emit(_choose(lineage, chosen).json_value(), lambda: _show_tables(ctx, chosen))


def _choose(lineage: LineageOut, tables: list[TableLineageOut]) -> LineageOut:
    return LineageOut(pipeline=lineage.pipeline, version=lineage.version, tables=tables)


def _show_tables(ctx: CliContext, tables: list[TableLineageOut]) -> None:
    for entry in tables:
        ctx.show.line(entry.table)
        rows = [(column.column, _join(column.sources), _join(column.origins)) for column in entry.columns]
        ctx.show.table(LINEAGE_COLUMNS, rows, none="its columns cannot be traced")


def _join(sources: list[ColumnSourceOut]) -> str:
    return ", ".join(f"{source.table}.{source.column}" for source in sources)
