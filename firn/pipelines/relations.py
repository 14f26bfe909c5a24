"""Pieces of SQL that all parts of a plan use: states of inputs, unions, and comparisons in which NULL equals NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import ErrorLevel, exp

from firn.pipelines.parsing import DIALECT
from firn.pipelines.plan import State
from firn.pipelines.selects import PREFIX, column

AFFECTED: Final = "firn_affected"
"""The relation with the affected values of the scope."""


def to_sql(query: exp.Query) -> str:
    """SQL of Spark with quoted names and without QUALIFY, which Spark does not have.

    Raises sqlglot's UnsupportedError for what Spark cannot say.
    """
    holder = exp.Subquery(this=query.copy())
    for select in list(holder.find_all(exp.Select)):
        if select.args.get("qualify") is not None and all(select.named_selects):
            _filter_outside(select)
    return str(holder.this.sql(DIALECT, identify=True, unsupported_level=ErrorLevel.RAISE))


def table_at(prefix: str, state: State, alias: str) -> exp.Expr:
    """A state of an input, under an alias."""
    return under_alias(exp.to_table(f"{prefix}__{state}"), alias)


def under_alias(source: exp.Expr, alias: str) -> exp.Expr:
    """A table or a query under an alias."""
    if isinstance(source, exp.Query) and not isinstance(source, exp.Table):
        source = exp.Subquery(this=source)
    return exp.alias_(source, alias, table=True, quoted=True)


def with_state(query: exp.Query, state: State) -> exp.Query:
    """A copy of a query that reads all inputs at one state."""
    copy = query.copy()
    for table in list(copy.find_all(exp.Table)):
        table.set("this", exp.to_identifier(f"{table.name}__{state}", quoted=True))
    return copy


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """The rows of all queries."""
    return _union(queries, distinct=False)


def union_distinct(queries: Sequence[exp.Query]) -> exp.Query:
    """The rows of all queries, each once."""
    return _union(queries, distinct=True)


def null_safe_match(left: str, right: str, names: Sequence[str]) -> exp.Expr:
    """The condition that the rows under two aliases have equal values in the columns `names`."""
    return exp.and_(*(null_safe_equal(column(left, name), column(right, name)) for name in names))


def null_safe_equal(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """The condition that two values are equal or both NULL."""
    return exp.NullSafeEQ(this=left, expression=right)


def rename_columns(query: exp.Query, names: Sequence[str], new: Sequence[str]) -> exp.Query:
    """A query with other names for its columns."""
    columns = [exp.alias_(column(f"{PREFIX}u", a), b, quoted=True) for a, b in zip(names, new, strict=True)]
    return exp.select(*columns).from_(under_alias(query, f"{PREFIX}u"))


def rows_with_values(query: exp.Query, relation: str, scope: Sequence[str]) -> exp.Select:
    """The rows of a query whose values of the scope are in a relation."""
    rows, keys = f"{PREFIX}q", f"{PREFIX}k"
    exists = exp.select("1").from_(under_alias(exp.to_table(relation), keys)).where(null_safe_match(rows, keys, scope))
    everything = exp.Column(this=exp.Star(), table=exp.to_identifier(rows, quoted=True))
    return exp.select(everything).from_(under_alias(query, rows)).where(exp.Exists(this=exists))


def _filter_outside(select: exp.Select) -> None:
    """QUALIFY becomes a column of the select, by which a select around it filters, in place.

    sqlglot's own way replaces columns of inputs by outputs of the same name, even if the query names the input.
    """
    rows, keep = f"{PREFIX}t", f"{PREFIX}keep"
    outer = exp.select(*(column(rows, name) for name in select.named_selects)).where(column(rows, keep))
    for name in ("distinct", "order", "limit", "offset"):
        outer.set(name, select.args.get(name))
        select.set(name, None)
    condition = select.args["qualify"].this
    select.set("qualify", None)
    select.append("expressions", exp.alias_(condition, keep, quoted=True))
    select.replace(outer)
    outer.from_(exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(rows, quoted=True))), copy=False)


def _union(queries: Sequence[exp.Query], *, distinct: bool) -> exp.Query:
    union = queries[0]
    for query in queries[1:]:
        union = exp.Union(this=union, expression=query, distinct=distinct)
    return union
