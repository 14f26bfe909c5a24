"""Which queries can be kept by adding changes to sums and counts: one GROUP BY over inner joins of tables.

The rules are narrow on purpose. A row of a group that the table has was computed by an earlier run, perhaps by another
optimizer. So a condition must give the same value for the same row everywhere: no functions of the user, no casts that
depend on the time zone, no fractions whose sums depend on the order of addition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlglot import exp

from firn.pipelines.selects import Leaf, Parts, Side, take_apart

MOST_DIGITS: Final = 18
"""Of decimals that are summed. With it no sum of 10⁹ rows overflows, which would make it null."""
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_COMPARED: Final = (*_INTEGERS, "decimal", "text", "date", "boolean")
_TIMES: Final = ("timestamp", "timestamptz", "timestampltz", "timestampntz")
_MOVING_DATES: Final = ("epoch", "now", "today", "tomorrow", "yesterday")
"""Texts that Spark takes for a date of now."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NODES: Final = (
    *(exp.Select, exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Where, exp.Group, exp.Alias),
    *(exp.Identifier, exp.Column, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.DataType, exp.DataTypeParam),
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.In, exp.Between, exp.Like, exp.NullSafeEQ),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Neg, exp.Add, exp.Sub, exp.Mul),
    *(exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.Count, exp.Sum, exp.Min, exp.Max),
)


class Aggregate(StrEnum):
    """What a column of the result has of its group."""

    ROWS = "rows"  # count(*)
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Measure:
    """A column of the result that aggregates `value`; None for `count(*)`."""

    name: str
    kind: Aggregate
    value: exp.Expr | None


@dataclass(frozen=True)
class Groups:
    """A query that can be maintained, taken apart. `columns` have the grouping columns by the names of the result."""

    parts: Parts
    columns: tuple[tuple[str, exp.Column], ...]
    measures: tuple[Measure, ...]

    @property
    def rows(self) -> Measure:
        """The number of the group's rows."""
        return next(measure for measure in self.measures if measure.kind is Aggregate.ROWS)

    def find_changed(self, table: str) -> Leaf | None:
        """The only place in which the query reads the table; None if it reads it twice."""
        leaves = [leaf for leaf in self.parts.leaves if leaf.table == table]
        return leaves[0] if len(leaves) == 1 else None


def read_groups(query: exp.Query, key: Sequence[str]) -> Groups | None:
    """The groups of a normalized query with types; None if changes cannot be added to them."""
    if not isinstance(query, exp.Select) or not all(map(_is_repeatable, query.walk())):
        return None
    parts, group = take_apart(query), query.args.get("group")
    if group is None or not all(leaf.table and leaf.side in (Side.FROM, Side.INNER) for leaf in parts.leaves):
        return None
    columns, measures = [], []
    for output in query.expressions:
        value = output.unalias()
        if isinstance(value, exp.Column) and value in group.expressions and _is_a(value, _COMPARED):
            columns.append((output.alias_or_name, value))
        elif (measure := _read_measure(output.alias_or_name, value)) is not None:
            measures.append(measure)
        else:
            return None
    names = [name for name, _ in columns]
    is_whole = all(item in [value for _, value in columns] for item in group.expressions)
    counts_rows = any(measure.kind is Aggregate.ROWS for measure in measures)
    if not is_whole or not counts_rows or not key or not {*key} <= {*names}:
        return None
    return Groups(parts, tuple(columns), tuple(measures))


def _read_measure(name: str, value: exp.Expr) -> Measure | None:
    argument = value.this
    if isinstance(value, exp.Count) and not value.expressions:
        is_rows = isinstance(argument, (exp.Star, exp.Literal))
        return Measure(name, Aggregate.ROWS if is_rows else Aggregate.COUNT, None if is_rows else argument)
    if not isinstance(argument, exp.Column):
        return None
    if isinstance(value, exp.Sum) and _can_be_summed(argument):
        return Measure(name, Aggregate.SUM, argument)
    if isinstance(value, (exp.Min, exp.Max)) and not value.expressions and not _is_a(argument, ("boolean",)):
        return Measure(name, Aggregate.MIN if isinstance(value, exp.Min) else Aggregate.MAX, argument)
    return None


def _can_be_summed(column: exp.Column) -> bool:
    return _is_a(column, _INTEGERS) or (_is_a(column, ("decimal",)) and read_precision(column)[0] <= MOST_DIGITS)


def read_precision(column: exp.Column) -> tuple[int, int]:
    """The digits of a decimal column, and those of them behind the point."""
    type_ = column.type
    numbers = [int(item.this.this) for item in type_.expressions] if isinstance(type_, exp.DataType) else []
    if not numbers:
        return 10, 0
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def is_integer(column: exp.Expr) -> bool:
    """Whether a column has a type of whole numbers."""
    return _is_a(column, _INTEGERS)


def is_bigint(column: exp.Expr) -> bool:
    """Whether sums of a column's values may be larger than a BIGINT."""
    return _is_a(column, ("bigint",))


def _is_a(node: exp.Expr, names: Sequence[str]) -> bool:
    return isinstance(node.type, exp.DataType) and any(node.type.is_type(name) for name in names)


def _is_repeatable(node: exp.Expr) -> bool:
    """Whether a part of the query gives the same value for the same row in each session of Spark."""
    if type(node) not in _NODES:
        return False
    if isinstance(node, exp.Column):
        is_compared_as_it_is = isinstance(node.parent, (exp.Min, exp.Max, exp.Count, exp.Is))
        return _is_a(node, _COMPARED) or (is_compared_as_it_is and _is_a(node, _TIMES))
    if isinstance(node, exp.Literal):
        return not node.is_string or node.this.strip().lower() not in _MOVING_DATES
    if isinstance(node, exp.Cast):
        is_date = isinstance(node.this, exp.Literal) and _DATE.fullmatch(node.this.this) is not None
        return node.to.is_type("date") and is_date
    return not (isinstance(node, exp.Select) and _has_more(node))


def _has_more(select: exp.Select) -> bool:
    known = ("expressions", "from_", "joins", "where", "group")
    return any(value for name, value in select.args.items() if name not in known)
