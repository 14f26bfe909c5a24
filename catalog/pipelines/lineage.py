"""The columns behind a column, through all tables of a pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from catalog.names import fold_case
from firn.protocol.pipeline_graph import ColumnLineage, ColumnLineageOut, ColumnSource, ColumnSourceOut, TableLineageOut
from firn.protocol.pipelines import TableDefinition

_Column = tuple[str, str]


def trace_tables(definitions: Sequence[TableDefinition]) -> list[TableLineageOut]:
    """The lineage of each table. A table stands after those that it reads."""
    own_tables = {fold_case(definition.name) for definition in definitions}
    origins: dict[_Column, dict[_Column, ColumnSourceOut]] = {}
    return [
        TableLineageOut(
            table=definition.name,
            columns=[_trace_column(definition.name, entry, own_tables, origins) for entry in definition.lineage],
        )
        for definition in definitions
    ]


def _trace_column(
    table: str,
    entry: ColumnLineage,
    own_tables: Collection[str],
    origins: dict[_Column, dict[_Column, ColumnSourceOut]],
) -> ColumnLineageOut:
    """One column. `origins` has those of the tables before, and gets those of this column."""
    sources = [_show_source(source, own_tables) for source in entry.sources]
    behind: dict[_Column, ColumnSourceOut] = {}
    for source in sources:
        key = (fold_case(source.table), fold_case(source.column))
        behind |= {key: source} if source.is_input else origins.get(key, {})
    origins[fold_case(table), fold_case(entry.column)] = behind
    return ColumnLineageOut(column=entry.column, sources=sources, origins=list(behind.values()))


def _show_source(source: ColumnSource, own_tables: Collection[str]) -> ColumnSourceOut:
    return ColumnSourceOut(table=source.table, column=source.column, is_input=fold_case(source.table) not in own_tables)


def find_foreign_source(definition: TableDefinition) -> ColumnSource | None:
    """A source in the lineage whose table is no input of the definition; None if there is none."""
    inputs: Mapping[str, str] = {fold_case(name): name for name in definition.inputs}
    sources = (source for entry in definition.lineage for source in entry.sources)
    return next((source for source in sources if fold_case(source.table) not in inputs), None)
