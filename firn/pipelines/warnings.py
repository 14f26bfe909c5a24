"""What a plan can do, and yet the owner of the table should know."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from firn.pipelines.full_reasons import reason_at
from firn.pipelines.functions import function_name
from firn.pipelines.plan import Reason

_ORDERED = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.ArrayAgg, exp.AnyValue)


def find_warnings(query: exp.Query) -> tuple[Reason, ...]:
    """The warnings about a normalized query that still has its types and positions."""
    return tuple(dict.fromkeys(warning for node in query.walk() for warning in _check(node)))


def _check(node: exp.Expr) -> Iterator[Reason]:
    if isinstance(node, (exp.Sum, exp.Avg)) and node.this.is_type("double", "float"):
        text = f"{function_name(node)}() of {node.this.type.sql()} depends on the order of addition"
        yield reason_at(node, text, "Use DECIMAL, or expect differences in the last digits")
    elif isinstance(node, _ORDERED) and not isinstance(node.parent, exp.Window):
        text = f"{function_name(node)}() depends on the order of the rows"
        yield reason_at(node, text, "Use max_by or min_by, or sort the array")
