"""Which tables a query reads, and from which of their columns each of its columns comes.

Each part of a query is traced once, and the work has a limit: a query of a few lines can name its parts so often that
writing them out would never end. The result informs people and decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from catalog.names import fold_case

LONGEST = 65_536
MOST_NODES = 10_000
DEEPEST = 50
"""Open parentheses: a parser may need exponential time for nested ones."""
MOST_COLUMNS = 2_000
MOST_WORK = 100_000
_DIALECTS = frozenset({"spark", "trino", "presto", "hive", "duckdb", "clickhouse", "dremio", "starrocks", "snowflake"})
_BUGS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What sqlglot also raises for SQL that it does not expect."""
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}

TableParts = tuple[str, ...]
"""A table as a query names it."""
Origin = tuple[TableParts, str]
"""A column of a table."""
Output = list[tuple[str, frozenset[Origin]]]
"""The columns of a query with their origins."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)


class _UntraceableError(Exception):
    """The query's columns cannot be told."""


def parse_query(sql: str, dialect: str) -> exp.Query | None:
    """Parse a query; None if it is too long, too deep, or no query that the parser knows."""
    read = dialect.lower() if dialect.lower() in _DIALECTS else None
    try:
        if len(sql) > LONGEST or _is_too_deep(sql, read):
            return None
        tree = sqlglot.parse_one(sql, read=read)
        if sum(1 for _ in tree.walk()) > MOST_NODES:
            return None
    except (SqlglotError, *_BUGS):
        return None
    return tree if isinstance(tree, exp.Query) else None


def _is_too_deep(sql: str, read: str | None) -> bool:
    depth = 0
    for token in sqlglot.tokenize(sql, read=read):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > DEEPEST:
            return True
    return False


def list_tables(query: exp.Query) -> list[TableParts]:
    """The tables that a query reads, each once, without the names that its WITH defines."""
    tables: dict[TableParts, None] = {}
    for table in query.find_all(exp.Table):
        parts = _name_parts(table)
        if parts and not (len(parts) == 1 and _is_common_table(table)):
            tables[parts] = None
    return list(tables)


def _name_parts(table: exp.Table) -> TableParts:
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        return ()
    return tuple(part.name for part in table.parts)


def _is_common_table(table: exp.Table) -> bool:
    name, node = fold_case(table.name), table.parent
    while node is not None:
        with_ = node.args.get("with_")
        if with_ is not None and name in {fold_case(cte.alias) for cte in with_.expressions}:
            return True
        node = node.parent
    return False


def trace_columns(query: exp.Query, schemas: Mapping[TableParts, Sequence[str]]) -> Output | None:
    """The columns of a query with their origins; None if they cannot be told.

    `schemas` has the columns of tables, as far as they are known. Columns that only decide which rows there are, as in
    WHERE and ON, are no origins.
    """
    try:
        return _Tracer(schemas).trace(query, {}, ())
    except (_UntraceableError, *_BUGS):
        return None


@dataclass(slots=True)
class _Source:
    """A table or query in FROM. `columns` is None for a table whose columns nobody knows."""

    columns: dict[str, frozenset[Origin]] | None
    names: Sequence[str] = ()
    table: TableParts = ()

    def find(self, column: str) -> frozenset[Origin] | None:
        if self.columns is not None:
            return self.columns.get(fold_case(column))
        return frozenset({(self.table, column)}) if self.table else frozenset()


_Sources = Mapping[str, _Source]
_CommonTables = Mapping[str, Output]


@dataclass(slots=True)
class _Tracer:
    schemas: Mapping[TableParts, Sequence[str]]
    work: int = 0

    def trace(self, query: exp.Expr, common: _CommonTables, outer: Sequence[_Sources]) -> Output:
        """Trace a SELECT, a UNION, or either one in parentheses."""
        known = dict(common)
        with_ = query.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise _UntraceableError
        for cte in () if with_ is None else with_.expressions:
            known[fold_case(cte.alias)] = _rename(self.trace(cte.this, known, outer), cte.args.get("alias"))
        if isinstance(query, (exp.Subquery, exp.Paren)):
            return self.trace(query.this, known, outer)
        if isinstance(query, exp.SetOperation):
            return self._unite(self.trace(query.this, known, outer), self.trace(query.expression, known, outer))
        if not isinstance(query, exp.Select):
            raise _UntraceableError
        sources = self._list_sources(query, known, outer)
        columns: Output = []
        for projection in query.expressions:
            columns += self._project(projection, sources, known, outer)
            if len(columns) > MOST_COLUMNS:
                raise _UntraceableError
        return columns

    def _unite(self, left: Output, right: Output) -> Output:
        if len(left) != len(right):
            raise _UntraceableError
        return [(name, self._join(origins, more)) for (name, origins), (_, more) in zip(left, right, strict=True)]

    def _join(self, *parts: frozenset[Origin]) -> frozenset[Origin]:
        self.work += 1 + sum(map(len, parts))
        if self.work > MOST_WORK:
            raise _UntraceableError
        return frozenset().union(*parts)

    def _list_sources(self, query: exp.Select, common: _CommonTables, outer: Sequence[_Sources]) -> _Sources:
        sources: dict[str, _Source] = {}
        from_ = query.args.get("from_")
        relations = [] if from_ is None else [from_.this]
        relations += [join.this for join in query.args.get("joins") or ()]
        for relation in relations:
            alias, source = self._read_source(relation, common, [*outer, sources])
            sources[fold_case(alias) or f"\0{len(sources)}"] = source
        for lateral in query.args.get("laterals") or ():
            sources[fold_case(lateral.alias_or_name)] = self._read_generator(lateral, [*outer, sources])
        return sources

    def _read_source(self, relation: exp.Expr, common: _CommonTables, outer: Sequence[_Sources]) -> tuple[str, _Source]:
        if relation.args.get("joins") or relation.args.get("pivots"):
            raise _UntraceableError
        if isinstance(relation, exp.Subquery):
            output = _rename(self.trace(relation.this, common, outer), relation.args.get("alias"))
            return relation.alias or "", _build_source(output)
        if isinstance(relation, exp.Table) and (parts := _name_parts(relation)):
            alias = relation.args.get("alias")
            if len(parts) == 1 and (output_ := common.get(fold_case(parts[0]))) is not None:
                return relation.alias_or_name, _build_source(_rename(output_, alias))
            names = self.schemas.get(parts)
            if names is None:
                return relation.alias_or_name, _Source(None, table=parts)
            output = _rename([(name, frozenset({(parts, name)})) for name in names], alias)
            return relation.alias_or_name, _build_source(output)
        return relation.alias_or_name, self._read_generator(relation, outer)

    def _read_generator(self, relation: exp.Expr, outer: Sequence[_Sources]) -> _Source:
        """LATERAL VIEW, UNNEST and the like: each of their columns comes from all columns in their arguments."""
        alias = relation.args.get("alias")
        names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
        origins = [self._resolve(column, outer) for column in relation.find_all(exp.Column)]
        behind = self._join(*origins)
        return _Source({fold_case(name): behind for name in names}, names)

    def _project(
        self, projection: exp.Expr, sources: _Sources, common: _CommonTables, outer: Sequence[_Sources]
    ) -> Output:
        value = projection.unalias()
        if isinstance(value, exp.Star) or (isinstance(value, exp.Column) and isinstance(value.this, exp.Star)):
            star = value if isinstance(value, exp.Star) else value.this
            if any(star.args.values()):
                raise _UntraceableError  # EXCEPT, REPLACE
            return _expand(value, sources)
        return [(projection.alias_or_name, self._find_origins(value, common, [*outer, sources]))]

    def _find_origins(self, value: exp.Expr, common: _CommonTables, scopes: Sequence[_Sources]) -> frozenset[Origin]:
        parts: list[frozenset[Origin]] = []
        for node in value.walk(prune=lambda node: isinstance(node, (exp.Column, exp.Query))):
            if isinstance(node, exp.Query):
                parts += [origins for _, origins in self.trace(node, common, scopes)]
            elif isinstance(node, exp.Column):
                parts.append(self._resolve(node, scopes))
        return self._join(*parts)

    def _resolve(self, column: exp.Column, scopes: Sequence[_Sources]) -> frozenset[Origin]:
        """The origins of a name. A name in two tables, as with USING, has those of both."""
        parts = [part.name for part in column.parts]
        for sources in reversed(scopes):
            for position in range(len(parts) - 1):  # a qualifier may be `t`, `db.t` or `catalog.db.t`
                source = sources.get(fold_case(parts[position]))
                origins = None if source is None else source.find(parts[position + 1])
                if origins is not None:
                    return origins
            matches = [origins for source in sources.values() if (origins := source.find(parts[0])) is not None]
            exact = [
                origins
                for source in sources.values()
                if source.columns is not None and (origins := source.find(parts[0])) is not None
            ]
            if exact or len(matches) == 1:
                return self._join(*(exact or matches))
            if matches:
                raise _UntraceableError  # any of several tables with unknown columns
        return frozenset()


def _build_source(output: Output) -> _Source:
    return _Source({fold_case(name): origins for name, origins in output}, [name for name, _ in output])


def _rename(output: Output, alias: exp.Expr | None) -> Output:
    names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return output
    if len(names) != len(output):
        raise _UntraceableError
    return [(name, origins) for name, (_, origins) in zip(names, output, strict=True)]


def _expand(star: exp.Expr, sources: _Sources) -> Output:
    return list(_list_columns(star, sources))


def _list_columns(star: exp.Expr, sources: _Sources) -> Iterator[tuple[str, frozenset[Origin]]]:
    chosen = list(sources.values())
    if isinstance(star, exp.Column):
        source = sources.get(fold_case(star.table))
        chosen = [] if source is None else [source]
    if not chosen or (len(chosen) > 1 and len({fold_case(n) for s in chosen for n in s.names}) < _count(chosen)):
        raise _UntraceableError  # two columns of one name: NATURAL and USING show one of them
    for source in chosen:
        if source.columns is None:
            raise _UntraceableError
        for name in source.names:
            yield name, source.columns[fold_case(name)]


def _count(sources: Sequence[_Source]) -> int:
    return sum(len(source.names) for source in sources)
