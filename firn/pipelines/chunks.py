"""Cuts a condition into chunks: ranges of a column, groups of its listed values, or values of a hash (decision 136)."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from firn.pipelines.conditions import Condition
from firn.pipelines.parsing import DIALECT
from firn.protocol.backfills import HASHED_CHUNKS, MOST_DEFAULT_CHUNKS
from firn.protocol.names import quote_name

_EPOCH: Final = dt.date(1970, 1, 1)
_WHOLE: Final = ("int", "long", "integer", "bigint", "smallint", "tinyint")
_LONGEST_GROUP: Final = 4_000
"""The most characters of a chunk's list of values."""
WHOLE: Final = "true"
"""The condition of the only chunk."""


@dataclass(frozen=True)
class _Bounds:
    """The smallest and the greatest value of a column, as whole numbers; dates as days since 1970."""

    low: int | None = None
    high: int | None = None


def cut_condition(condition: Condition, types: Mapping[str, str], count: int | None, today: dt.date) -> list[str]:
    """The conditions of chunks. Each row of the condition matches one of them exactly, whatever the table holds.

    `types` are those of the scope's columns, by their names in lower case. `count` is the number of chunks, or None for
    a number that fits. The ends of a range are open, so a wrong guess of them costs balance, not rows.
    """
    conjuncts = list(_flatten(condition.tree))
    for name, kind in types.items():
        bounds = _find_bounds(conjuncts, name, kind, today)
        if bounds.low is not None and bounds.high is not None and bounds.high > bounds.low:
            return _cut_range(name, kind, bounds.low, bounds.high, count or MOST_DEFAULT_CHUNKS)
    for name in types:
        if len(listed := _find_list(conjuncts, name)) > 1:
            return _cut_list(name, listed, count or MOST_DEFAULT_CHUNKS)
    is_narrow = any(_find_equality(conjuncts, name) for name in types)
    chosen = count or (1 if is_narrow else HASHED_CHUNKS)
    return _cut_hash(list(types), chosen)


def _cut_range(name: str, kind: str, low: int, high: int, count: int) -> list[str]:
    """Ranges of about equal length; the first has no lower bound, and the last no upper one."""
    count = min(count, high - low + 1)
    if count == 1:
        return [WHOLE]
    column = quote_name(name)
    edges = [_write(kind, low + (high - low + 1) * i // count) for i in range(1, count)]
    inner = [f"{column} >= {first} AND {column} < {last}" for first, last in itertools.pairwise(edges)]
    return [f"{column} < {edges[0]}", *inner, f"{column} >= {edges[-1]}"]


def _cut_list(name: str, listed: Sequence[str], count: int) -> list[str]:
    count = min(count, len(listed))
    sizes = [len(listed) * i // count for i in range(count + 1)]
    groups = [f"{quote_name(name)} IN ({', '.join(listed[a:b])})" for a, b in itertools.pairwise(sizes)]
    return groups if max(map(len, groups)) <= _LONGEST_GROUP else [WHOLE]


def _cut_hash(names: Sequence[str], count: int) -> list[str]:
    if count == 1:
        return [WHOLE]
    columns = ", ".join(map(quote_name, names))
    return [f"pmod(xxhash64({columns}), {count}) = {i}" for i in range(count)]


def _flatten(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that AND joins, without recursion: chains may be long."""
    stack = [node]
    while stack:
        part = stack.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, exp.And):
            stack += [part.expression, part.this]
        else:
            yield part


def _find_bounds(conjuncts: Sequence[exp.Expr], name: str, kind: str, today: dt.date) -> _Bounds:
    """The range of a column, as far as comparisons with literals tell. Dates without an end go up to today."""
    lows: list[int] = []
    highs: list[int] = []
    for part in conjuncts:
        for operator, literal in _list_comparisons(part, name):
            value = _read(literal, kind)
            if value is not None and operator in (">", ">="):
                lows.append(value)
            elif value is not None:
                highs.append(value)
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is None and kind == "date":
        high = max(low, (today - _EPOCH).days)
    return _Bounds(low, high)


_FLIPPED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_OPERATORS: Final[dict[type[exp.Expr], str]] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}


def _list_comparisons(part: exp.Expr, name: str) -> Iterator[tuple[str, exp.Expr]]:
    if isinstance(part, exp.Between) and _is_column(part.this, name):
        yield ">=", part.args["low"]
        yield "<=", part.args["high"]
    operator = _OPERATORS.get(type(part))
    if operator is None:
        return
    if _is_column(part.this, name):
        yield operator, part.expression
    elif _is_column(part.expression, name):
        yield _FLIPPED[operator], part.this


def _find_list(conjuncts: Sequence[exp.Expr], name: str) -> list[str]:
    for part in conjuncts:
        listed = part.expressions if isinstance(part, exp.In) and _is_column(part.this, name) else []
        if listed and all(isinstance(value, exp.Literal) for value in listed):
            return list(dict.fromkeys(str(value.sql(DIALECT)) for value in listed))
    return []


def _find_equality(conjuncts: Sequence[exp.Expr], name: str) -> bool:
    sides = [(part.this, part.expression) for part in conjuncts if isinstance(part, exp.EQ)]
    return any(_is_column(left, name) or _is_column(right, name) for left, right in sides)


def _is_column(node: exp.Expr | None, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name


def _read(node: exp.Expr, kind: str) -> int | None:
    """A literal as a whole number; None for another expression, and for a text that is no date."""
    if isinstance(node, exp.Cast) and node.is_type("date"):
        node = node.this
    is_negative = isinstance(node, exp.Neg)
    literal = node.this if is_negative else node
    if not isinstance(literal, exp.Literal):
        return None
    if kind in _WHOLE and not literal.is_string and literal.name.isdecimal():
        return -int(literal.name) if is_negative else int(literal.name)
    if kind == "date" and literal.is_string and not is_negative:
        try:
            return (dt.date.fromisoformat(literal.name.strip()) - _EPOCH).days
        except ValueError:
            return None
    return None


def _write(kind: str, value: int) -> str:
    return f"DATE '{_EPOCH + dt.timedelta(days=value)}'" if kind == "date" else str(value)
