"""SQL of the rows with affected values, and the columns of inputs by which literal values may restrict what is read.

The query as a whole is filtered by the affected values, which is always right. Values of a column of the scope may also
restrict an input's column that has the same value in all rows that matter. That is the column of `find_equal`, the one
from which affected values are read. A nullable side is never restricted by its own columns: a row without its match
would look like one that has none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from firn.pipelines.equalities import find_equal
from firn.pipelines.parsing import DIALECT
from firn.pipelines.plan import State
from firn.pipelines.relations import AFFECTED, rows_with_values, to_sql, under_alias, with_state
from firn.pipelines.scope import find_scope
from firn.pipelines.selects import Leaf, column, take_apart, unwrap


@dataclass(frozen=True)
class Prune:
    """An input, by its alias in the query, whose `column` has the values of the scope's column `output`."""

    alias: str
    prefix: str
    column: str
    output: str


def find_prunes(query: exp.Expr, outputs: Mapping[str, str]) -> Iterator[Prune]:
    """The columns of inputs that have the values of columns of the query. `outputs` has the scope's name for each."""
    query = unwrap(query)
    if isinstance(query, exp.SetOperation):
        pairs = list(zip(query.left.named_selects, query.right.named_selects, strict=True))
        yield from find_prunes(query.left, outputs)
        yield from find_prunes(query.right, {right: outputs[left] for left, right in pairs if left in outputs})
        return
    assert isinstance(query, exp.Select)  # noqa: S101 -- tells the type checker which queries remain
    parts = take_apart(query)
    for leaf in parts.leaves:
        equal = {name: find_equal(parts, leaf, parts.output(name)) for name in outputs}
        columns = {value.name: outputs[name] for name, value in equal.items() if isinstance(value, exp.Column)}
        yield from _prune_leaf(leaf, columns)


def rows_sql(
    query: exp.Query, scope: Sequence[str], prunes: Sequence[Prune], values: Mapping[str, Sequence[Any]]
) -> str:
    """SQL of the query's rows with affected values; inputs are restricted by `values` of columns of the scope."""
    copy = with_state(query, State.NEW)
    for table in list(copy.find_all(exp.Table)):
        own = [prune for prune in prunes if prune.alias == table.alias and prune.output in values]
        if own:
            conditions = [_is_one_of(column(table.alias, prune.column), values[prune.output]) for prune in own]
            source = under_alias(exp.to_table(table.name), table.alias)
            table.replace(under_alias(exp.select("*").from_(source).where(*conditions), table.alias))
    return to_sql(rows_with_values(copy, AFFECTED, scope))


def values_sql(name: str, values: Sequence[Any]) -> str:
    """SQL of the condition that a column has one of these values, of which None is null."""
    return _is_one_of(exp.column(exp.to_identifier(name, quoted=True)), values).sql(dialect=DIALECT)


def _prune_leaf(leaf: Leaf, columns: Mapping[str, str]) -> Iterator[Prune]:
    if leaf.query is None:
        for name, output in columns.items():
            yield Prune(leaf.origin or leaf.alias, leaf.table or "", name, output)
        return
    scope = find_scope(leaf.query)
    yield from find_prunes(leaf.query, {name: output for name, output in columns.items() if name in scope})


def _is_one_of(node: exp.Expr, values: Sequence[Any]) -> exp.Expr:
    known = [_literal(value) for value in values if value is not None]
    conditions: list[exp.Expr] = [exp.In(this=node, expressions=known)] if known else []
    if len(known) < len(values):
        conditions.append(exp.Is(this=node.copy(), expression=exp.null()))
    return exp.or_(*conditions) if conditions else exp.false()


def _literal(value: Any) -> exp.Expr:
    """A value as SQL. Raises ValueError for a type that no table is partitioned by as it is, such as float."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return exp.convert(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), "date")
    raise ValueError(f"values of {type(value).__name__} cannot restrict what is read")
