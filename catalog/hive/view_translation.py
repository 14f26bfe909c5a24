"""Translates the query of a Hive view to Spark SQL, where both give the same rows; elsewhere it says why not.

It is a list of what is known to be the same, not of what differs: Hive and Spark have hundreds of functions, and many
with one name differ for nulls, texts that are no numbers, or time zones. Values of different types are not compared
either, because Hive casts texts to numbers where Spark refuses, or the other way round.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify_columns import qualify_columns, validate_qualify_columns
from sqlglot.optimizer.qualify_tables import qualify_tables
from sqlglot.schema import MappingSchema

LONGEST = 65_536
_SHOWN = 60
_BUGS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What sqlglot also raises for SQL that it does not expect."""

_SAME: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Distinct, exp.Subquery, exp.With, exp.CTE, exp.Union,
    exp.Alias, exp.TableAlias, exp.Column, exp.Identifier, exp.Table, exp.Literal, exp.Boolean, exp.Null, exp.Paren,
    exp.And, exp.Or, exp.Not, exp.Is, exp.Case, exp.If, exp.Coalesce, exp.Add, exp.Sub, exp.Mul, exp.Neg,
    exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Star, exp.Upper, exp.Lower, exp.Abs,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between, exp.Join,
)  # fmt: skip
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Sum, exp.Avg, exp.Abs)
_JOINS = {("", ""), ("", "INNER"), ("", "CROSS"), ("LEFT", ""), ("RIGHT", ""), ("FULL", "")} | {
    (side, "OUTER") for side in ("LEFT", "RIGHT", "FULL")
}
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBERS = frozenset(
    {exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT}
    | {exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE, exp.DataType.Type.DECIMAL}
)
_TEXTS = frozenset({exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT})
_FAMILIES = {
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_TEXTS, "text"),
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.NULL: "null",
}

logging.getLogger("sqlglot").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewQuery:
    """A view's query in Spark SQL and the tables that it reads; `reasons` say why there is none."""

    sql: str | None
    tables: tuple[str, ...]
    """As DATABASE.TABLE, sorted; empty for a query that cannot be parsed."""
    reasons: tuple[str, ...] = ()


def list_tables(text: str, database: str) -> tuple[str, ...]:
    """The tables that a view's query reads, as DATABASE.TABLE; none where it cannot be parsed."""
    tree = _parse(text)
    return () if isinstance(tree, str) else _find_tables(tree, database)


def translate(text: str, database: str, columns: Sequence[str], schemas: Mapping[str, Mapping[str, str]]) -> ViewQuery:
    """Translate the query of a view of a database with these columns.

    `schemas` has the Hive types of the columns of each table, by DATABASE.TABLE in lower case.
    """
    tree = _parse(text)
    if isinstance(tree, str):
        return ViewQuery(sql=None, tables=(), reasons=(tree,))
    tables = _find_tables(tree, database)
    if unknown := [name for name in tables if name not in schemas]:
        return ViewQuery(sql=None, tables=tables, reasons=(f"the types of {unknown[0]} are not known",))
    reasons = list(dict.fromkeys(_find_differences(tree)))
    try:
        typed = _annotate(tree, database, {name: schemas[name] for name in tables})
        reasons += dict.fromkeys(_find_mixed_types(typed))
        names = [name.lower() for name in typed.named_selects]
    except (SqlglotError, *_BUGS) as error:
        return ViewQuery(sql=None, tables=tables, reasons=(*reasons, f"its columns cannot be resolved: {_cut(error)}"))
    if names != [name.lower() for name in columns]:
        reasons.append("its query has other columns than the view")
    sql = tree.sql(dialect="spark", identify=True)
    return ViewQuery(sql=None if reasons else sql, tables=tables, reasons=tuple(reasons))


def _parse(text: str) -> exp.Query | str:
    """Parse one query, or say why it is none."""
    if not text.strip():
        return "the metastore has no text of its query"
    if len(text) > LONGEST:
        return f"its query has {len(text):,} characters; {LONGEST:,} are allowed"
    try:
        trees = [tree for tree in sqlglot.parse(text, read="hive") if tree is not None]
    except (SqlglotError, *_BUGS):
        return "its query cannot be parsed"
    if len(trees) != 1 or not isinstance(trees[0], exp.Select | exp.SetOperation):
        return "its text is not one query"
    return trees[0]


def _find_tables(tree: exp.Query, database: str) -> tuple[str, ...]:
    shared = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    names = {
        f"{table.db or database}.{table.name}".lower()
        for table in tree.find_all(exp.Table)
        if table.db or table.name.lower() not in shared
    }
    return tuple(sorted(names))


def _find_differences(tree: exp.Query) -> Iterator[str]:
    """Say what in the query is not known to be the same in Spark."""
    for node in tree.walk():
        if not isinstance(node, _SAME):
            yield f"{_name(node)} is not known to give the same in Spark"
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            yield "* names columns only when it is read"
        elif isinstance(node, exp.Join) and (node.side.upper(), node.kind.upper()) not in _JOINS:
            yield f"{node.side} {node.kind} JOIN is not known to give the same in Spark".strip()
        elif isinstance(node, exp.Table) and (node.catalog or set(_list_set_clauses(node)) - {"this", "db", "alias"}):
            yield f"{_cut(node.sql(dialect='hive'))} is more than the name of a table"
        elif isinstance(node, exp.Group) and any(isinstance(part, exp.Literal) for part in node.expressions):
            yield "GROUP BY a number depends on a setting of Hive"
        elif isinstance(node, exp.Select) and (more := set(_list_set_clauses(node)) - _CLAUSES):
            yield f"{min(more).upper()} is not known to give the same in Spark"


_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "group", "having", "distinct", "with_", "with"}


def _list_set_clauses(node: exp.Expr) -> Iterator[str]:
    return (name for name, value in node.args.items() if value not in (None, [], False, ""))


def _annotate(tree: exp.Query, database: str, schemas: Mapping[str, Mapping[str, str]]) -> exp.Query:
    """The query with the types of its parts."""
    nested: dict[str, Any] = {}
    for name, columns in schemas.items():
        owner, _, table = name.partition(".")
        nested.setdefault(owner, {})[table] = dict(columns)
    schema = MappingSchema(nested, dialect="hive")
    qualified: Any = qualify_tables(tree.copy(), db=database, dialect="hive")
    qualified = validate_qualify_columns(qualify_columns(qualified, schema))
    typed: Any = annotate_types(qualified, schema, dialect="hive")
    if not isinstance(typed, exp.Query):
        raise TypeError("no query")
    return typed


def _find_mixed_types(tree: exp.Query) -> Iterator[str]:
    """Name the places where Hive would cast, or where both calculate differently."""
    for node in tree.walk():
        for parts in _comparable(node):
            families = {_family(part, parts) for part in parts} - {"null"}
            if len(families) > 1 or None in families:
                yield f"{_cut(node.sql(dialect='hive'))} is of different or unknown types"
        if isinstance(node, _ARITHMETIC) and any(_family(part, ()) != "number" for part in _operands(node)):
            yield f"{_cut(node.sql(dialect='hive'))} calculates with something that is not a number"
        if isinstance(node, exp.Column) and node.is_type(exp.DataType.Type.CHAR):
            yield f"{node.name} is of the type char, whose spaces Hive ignores"


def _comparable(node: exp.Expr) -> Iterator[Sequence[exp.Expr]]:
    """The groups of parts that have to have one type."""
    if isinstance(node, _COMPARISONS):
        yield [node.left, node.right]
    elif isinstance(node, exp.Between):
        yield [node.this, node.args["low"], node.args["high"]]
    elif isinstance(node, exp.In):
        query = node.args.get("query")
        yield [node.this, *node.expressions, *([query.unnest().selects[0]] if query is not None else [])]
    elif isinstance(node, exp.Coalesce):
        yield [node.this, *node.expressions]
    elif isinstance(node, exp.Case):
        branches = node.args.get("ifs") or []
        yield [
            *(branch.args["true"] for branch in branches),
            *([node.args["default"]] if node.args.get("default") else []),
        ]
        if node.this is not None:
            yield [node.this, *(branch.this for branch in branches)]
    elif isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        yield [node.args["true"], *([node.args["false"]] if node.args.get("false") else [])]
    elif isinstance(node, exp.Union):
        yield from zip(node.left.selects, node.right.selects, strict=True)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    return [node.left, node.right] if isinstance(node, exp.Binary) else [node.this]


def _family(part: exp.Expr, beside: Sequence[exp.Expr]) -> str | None:
    """The kind of a part's values; a text such as '2026-01-31' beside days is a day."""
    part = part.unalias().unnest() if isinstance(part, exp.Alias | exp.Paren) else part
    kind = part.type.this if isinstance(part.type, exp.DataType) else None
    family = _FAMILIES.get(kind) if kind is not None else None
    if family == "text" and isinstance(part, exp.Literal) and _PLAIN_DATE.fullmatch(part.name):
        others = {_family(other, ()) for other in beside if other is not part and not isinstance(other, exp.Literal)}
        return "date" if others == {"date"} else family
    return family


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"the function {_cut(node.name.lower())}"
    name = node.sql_names()[0].lower() if isinstance(node, exp.Func) else type(node).__name__.upper()
    return f"the function {name}" if isinstance(node, exp.Func) else name


def _cut(text: object) -> str:
    shown = " ".join(str(text).split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
