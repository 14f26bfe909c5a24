"""The scope of a query: output columns by whose values its rows can be computed apart from all other rows.

A column belongs to the scope if it is a function of the grouping columns of each aggregate and of the partitioning
columns of each window. In a set operation it must belong to the scopes of both branches, at the same position.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from firn.pipelines.full_reasons import NotIncremental, reason_at
from firn.pipelines.functions import gives_many_rows, is_aggregate
from firn.pipelines.selects import has_query, unwrap


def require_scope(query: exp.Query) -> tuple[str, ...]:
    """The scope of a normalized query. Raises NotIncremental if it has none."""
    names = find_scope(query)
    if not names:
        text = "no column of the result belongs to all of its groups, windows and branches"
        raise NotIncremental(reason_at(query, text, "Select the columns of GROUP BY and PARTITION BY"))
    return names


def find_scope(query: exp.Expr) -> tuple[str, ...]:
    """The scope of a normalized query; empty if it has none."""
    query = unwrap(query)
    if isinstance(query, exp.SetOperation):
        return _common_scope(query)
    assert isinstance(query, exp.Select)  # noqa: S101 -- tells the type checker which queries remain
    required = required_keys(query)
    return tuple(
        output.alias_or_name
        for output in query.expressions
        if can_be_compared(output)
        and is_row_value(output.unalias())
        and all(is_function_of(output.unalias(), keys) for keys in required)
    )


def required_keys(select: exp.Select) -> list[list[exp.Expr]]:
    """The expressions of GROUP BY, and those of PARTITION BY of each window: a scope is a function of each list."""
    group = select.args.get("group")
    keys = [] if group is None else [list(group.expressions)]
    return keys + window_keys(select)


def window_keys(select: exp.Select) -> list[list[exp.Expr]]:
    """The expressions of PARTITION BY of each window."""
    parts = [*select.expressions, select.args.get("qualify")]
    windows = [window for part in parts if part is not None for window in part.find_all(exp.Window)]
    return [list(window.args.get("partition_by") or ()) for window in windows]


def is_row_value(node: exp.Expr) -> bool:
    """Whether the value comes from the columns of one row: no aggregate, window, subquery, or constant."""
    if node.find(exp.Column) is None or has_query(node):
        return False
    return not any(isinstance(part, exp.Window) or is_aggregate(part) or gives_many_rows(part) for part in node.walk())


def can_be_compared(output: exp.Expr) -> bool:
    """Whether Spark compares values of the output's type: no maps and variants, at any depth."""
    type_ = output.type
    return type_ is None or not any(
        isinstance(part, exp.DataType) and part.is_type("map", "variant", "object") for part in type_.walk()
    )


def is_function_of(node: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Whether equal keys always give equal values of the expression."""
    if node in keys:
        return True
    if isinstance(node, exp.Column):
        return False
    return all(is_function_of(child, keys) for child in node.iter_expressions())


def _common_scope(query: exp.SetOperation) -> tuple[str, ...]:
    left, right = find_scope(query.left), find_scope(query.right)
    pairs = zip(query.left.named_selects, query.right.named_selects, strict=True)
    return tuple(name for name, other in pairs if name in left and other in right)
