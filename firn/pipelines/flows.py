"""Flows: `CREATE FLOW f AS INSERT INTO t BY NAME SELECT …`; several flows into one streaming table are one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import mark_file
from firn.pipelines.statements import Statement, StatementKind

_FLOWS = (StatementKind.FLOW, StatementKind.CHANGES)


@dataclass(frozen=True)
class PlacedStatement:
    """A statement with its file, relative to the folder."""

    statement: Statement
    path: str


def add_flows(
    statements: Sequence[PlacedStatement], qualify: Callable[[Sequence[str]], str]
) -> tuple[list[PlacedStatement], list[InvalidDefinition]]:
    """The statements without flows, whose queries are those of their streaming tables, and what is wrong."""
    flows: dict[str, list[PlacedStatement]] = {}
    for placed in statements:
        if placed.statement.kind in _FLOWS:
            flows.setdefault(qualify(placed.statement.target), []).append(placed)
    rest: list[PlacedStatement] = []
    problems: list[InvalidDefinition] = []
    for placed in statements:
        if placed.statement.kind is StatementKind.STREAMING:
            try:
                statement = _fill(placed, flows.pop(qualify(placed.statement.name), []))
                rest.append(replace(placed, statement=statement))
            except InvalidDefinition as problem:
                problems.append(problem.in_file(placed.path))
        elif placed.statement.kind not in _FLOWS:
            rest.append(placed)
    problems += _refuse_lost(flows)
    return rest, problems


def _fill(table: PlacedStatement, flows: Sequence[PlacedStatement]) -> Statement:
    """The streaming table with the queries of its flows."""
    statement = table.statement
    own = [] if statement.is_empty else [table]
    sources = [*own, *flows]
    if not sources:
        reason, hint = f"nothing fills {'.'.join(statement.name)}", "write AS SELECT … FROM STREAM t, or CREATE FLOW"
        raise InvalidDefinition(reason, line=statement.line, hint=hint)
    changes = [source for source in sources if source.statement.kind is StatementKind.CHANGES]
    if changes:
        if len(sources) > 1:
            flow = changes[0]
            hint = "write a table for each, and a query that puts them together"
            raise InvalidDefinition(
                "AUTO CDC INTO and other flows fill one table", path=flow.path, line=flow.statement.line, hint=hint
            )
        flow_statement = changes[0].statement
        query = _place_in(changes[0], table.path)
        return replace(statement, kind=StatementKind.TABLE, query=query, key=flow_statement.key)
    return replace(statement, query=_unite(sources, table.path))


def _place_in(source: PlacedStatement, path: str) -> exp.Query:
    query = source.statement.query.copy()
    if source.path != path:
        mark_file(query, source.path)
    return query


def _unite(sources: Sequence[PlacedStatement], path: str) -> exp.Query:
    """UNION ALL of the queries, with the columns of each in the order of the first."""
    if len(sources) == 1:
        return _place_in(sources[0], path)
    names = [_read_columns(source) for source in sources]
    united: exp.Query | None = None
    for number, (source, columns) in enumerate(zip(sources, names, strict=True), 1):
        if sorted(columns) != sorted(names[0]):
            text = f"the flows give the columns {', '.join(names[0])} and {', '.join(columns)}"
            line = source.statement.line
            raise InvalidDefinition(text, path=source.path, line=line, hint="give both the same columns with AS")
        query = _place_in(source, path)
        if columns != names[0]:
            alias = f"flow_{number}"
            parts = [exp.column(exp.to_identifier(name, quoted=True), table=alias) for name in names[0]]
            query = exp.select(*parts).from_(
                exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
            )
        united = query if united is None else exp.Union(this=united, expression=query, distinct=False)
    assert united is not None  # noqa: S101 -- there are two sources at least
    return united


def _read_columns(source: PlacedStatement) -> list[str]:
    names = [name.lower() for name in source.statement.query.named_selects]
    if "*" in names or "" in names:
        hint = "several flows fill the table, so Firn has to know which columns are which"
        raise InvalidDefinition(
            "name the columns of this flow", path=source.path, line=source.statement.line, hint=hint
        )
    return names


def _refuse_lost(flows: dict[str, list[PlacedStatement]]) -> Iterator[InvalidDefinition]:
    for target, lost in flows.items():
        for flow in lost:
            hint = f"write CREATE STREAMING TABLE {target}"
            text = f"no file creates the streaming table {target}"
            yield InvalidDefinition(text, path=flow.path, line=flow.statement.line, hint=hint)
