"""A condition over columns of a table, checked before anything stores or runs it, and cut into ranges.

The server parses the `where` of a backfill with it, and the optimizer parses it again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.forbidden import refuse_forbidden
from firn.pipelines.functions import function_name, gives_many_rows, is_aggregate, is_unknown, is_unrepeatable
from firn.pipelines.parsing import DIALECT, find_place, parse_query

_PREFIX: Final = "SELECT ("
_NODES: Final = 1_000
"""The most parts of a condition. Spark's own planner takes long for more."""
_OF_A_ROW: Final = "a condition compares columns of the scope with literals"
_OPEN: Final = (exp.Parameter, exp.Placeholder, exp.SessionParameter, exp.Star)


@dataclass(frozen=True)
class Condition:
    """A checked condition, as Spark SQL."""

    sql: str
    tree: exp.Expr


def parse_condition(text: str, columns: Sequence[str], deterministic: Collection[str] = ()) -> Condition:
    """Parse a condition over these columns.

    Raises InvalidDefinition, with line and column in the text, for anything else: subqueries, aggregates, windows,
    other columns, functions that are not Spark's nor in `deterministic`, and functions whose value may differ by run.
    """
    select = _parse(text)
    condition = select.expressions[0].this
    nodes = list(condition.walk())
    if len(nodes) > _NODES:
        raise InvalidDefinition(f"the condition has more than {_NODES:,} parts", hint="request several backfills")
    known = frozenset(name.lower() for name in deterministic)
    for node in nodes:
        _check_node(node, columns, known)
    return Condition(str(condition.sql(DIALECT)), condition)


def _parse(text: str) -> exp.Expr:
    """The condition as the only column of a query. Its first line begins after the prefix."""
    try:
        select = parse_query(f"{_PREFIX}{text}\n) AS c FROM t")
        refuse_forbidden(select)
    except InvalidDefinition as problem:
        column = _shift(problem.line, problem.column)
        raise InvalidDefinition(problem.reason, line=problem.line, column=column, hint=problem.hint) from problem
    parts = {name for name, value in select.args.items() if value}
    is_plain = parts == {"expressions", "from_"} and len(select.expressions) == 1
    column = select.expressions[0]
    if not is_plain or not isinstance(column, exp.Alias) or not isinstance(column.this, exp.Paren):
        raise InvalidDefinition(f"{text[:80]!r} is no condition", hint=_OF_A_ROW)
    return select


def _check_node(node: exp.Expr, columns: Sequence[str], deterministic: frozenset[str]) -> None:
    shown = node.sql(DIALECT)[:80]
    if isinstance(node, (exp.Query, exp.Subquery, exp.Window)) or is_aggregate(node) or gives_many_rows(node):
        _refuse(node, f"{shown} reads other rows", _OF_A_ROW)
    if isinstance(node, _OPEN):
        _refuse(node, f"{shown} has no value", _OF_A_ROW)
    if is_unrepeatable(node):
        _refuse(node, f"{shown} has another value in each run", "write the value")
    if is_unknown(node, deterministic):
        _refuse(node, f"{function_name(node)}() is no function of Spark", "use Spark's functions")
    if isinstance(node, exp.Column):
        _check_column(node, columns)


def _check_column(node: exp.Column, columns: Sequence[str]) -> None:
    name = node.name.lower()
    if node.table or name not in {column.lower() for column in columns}:
        near = get_close_matches(name, columns, n=1)
        hint = f"did you mean {near[0]}?" if near else f"write a condition over {', '.join(columns)}"
        _refuse(node, f"{node.sql(DIALECT)[:80]} is no column of the table's scope", hint)


def _refuse(node: exp.Expr, reason: str, hint: str) -> NoReturn:
    place = find_place(node)
    raise InvalidDefinition(reason, line=place.line, column=_shift(place.line, place.column), hint=hint)


def _shift(line: int | None, column: int | None) -> int | None:
    """A column of the query as one of the condition."""
    return max(1, column - len(_PREFIX)) if line == 1 and column is not None else column
