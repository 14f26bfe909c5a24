"""From which columns of its inputs each column of a query is computed."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer import build_scope

from firn.pipelines.normalization import Schema, expand_windows, hides_columns, normalize
from firn.pipelines.parsing import DIALECT
from firn.pipelines.tables import rename_tables
from firn.protocol.pipeline_graph import LONGEST_COLUMN, MOST_SOURCES, ColumnLineage, ColumnSource


def trace_columns(query: exp.Query, schema: Schema) -> list[ColumnLineage]:
    """The lineage of each column of a valid query, in its order; none if its columns cannot be traced.

    `schema` has the columns of its inputs, as for a plan. Lineage informs people, and decides nothing: names that are
    too long for a message are left out, and other checks refuse them where they matter.
    """
    tree = query.copy()
    names = {prefix: name for name, prefix in rename_tables(tree).items()}
    if any(map(hides_columns, tree.walk())):
        return []
    expand_windows(tree)
    columns = {prefix: schema[name] for prefix, name in names.items()}
    try:
        normal = normalize(tree, columns)
        traced = lineage(
            None, normal, dict(columns), dialect=DIALECT, scope=build_scope(normal), copy=False, trim_selects=False
        )
    except (SqlglotError, RecursionError):
        return []
    return [
        ColumnLineage(column=name, sources=_list_sources(node, names))
        for name, node in traced.items()
        if len(name) <= LONGEST_COLUMN
    ]


def _list_sources(root: Node, names: Mapping[str, str]) -> list[ColumnSource]:
    """The columns of tables at the ends of the ways from one column, each once, by name."""
    sources: dict[tuple[str, str], ColumnSource] = {}
    for node in root.walk():
        table = node.expression
        if not isinstance(table, exp.Table) or table.name not in names:
            continue
        name, column = names[table.name], exp.to_column(node.name, dialect=DIALECT).name
        if len(column) <= LONGEST_COLUMN:
            sources.setdefault((name, column), ColumnSource(table=name, column=column))
    return [sources[key] for key in sorted(sources)][:MOST_SOURCES]
