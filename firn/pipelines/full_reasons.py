"""The parts of a query that no incremental plan can follow, with their places and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from firn.pipelines.functions import function_name, is_aggregate, is_unknown, is_unrepeatable
from firn.pipelines.parsing import DIALECT, find_place
from firn.pipelines.plan import Reason
from firn.pipelines.tables import is_named


class NotIncremental(Exception):
    """Raised where a plan cannot go on; it carries the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def reason_at(node: exp.Expr, text: str, remedy: str) -> Reason:
    """A reason with the place of a node."""
    return Reason(text, remedy, *find_place(node))


def find_reasons(tree: exp.Query, deterministic: frozenset[str]) -> tuple[Reason, ...]:
    """All reasons that the text of a query gives, in the order of their places.

    `deterministic` are names of user-defined functions in lower case that give one value for equal arguments.
    """
    reasons = [reason for node in tree.walk(prune=_is_refused_whole) for reason in _check(node, deterministic)]
    return tuple(sorted(dict.fromkeys(reasons), key=_order_by_place))


def _order_by_place(reason: Reason) -> tuple[str, int, int]:
    return reason.path or "", reason.line or 0, reason.column or 0


def is_aggregated(select: exp.Select) -> bool:
    """Whether the select makes one row of many: it has GROUP BY, HAVING, or an aggregate that is no window function."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    parts = [*select.expressions, select.args.get("qualify")]
    return any(_aggregates(part) for part in parts if part is not None)


def _aggregates(part: exp.Expr) -> bool:
    return any(
        is_aggregate(node) and not _is_windowed(node)
        for node in part.walk(prune=lambda node: isinstance(node, (exp.Query, exp.Subquery)))
    )


def _is_windowed(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)) and parent.this is node:
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is node


def _check(node: exp.Expr, deterministic: frozenset[str]) -> Iterator[Reason]:
    if is_unrepeatable(node):
        text = f"{node.sql(DIALECT)} has another value in each run"
        yield reason_at(node, text, "Read the value from a column of an input")
    elif is_unknown(node, deterministic) and not isinstance(node.parent, exp.Table):
        text = f"{function_name(node)}() is no function of Spark, so it may have another value in each run"
        yield reason_at(node, text, "List it as deterministic if equal arguments always give equal values")
    for kind, check in _CHECKS:
        if isinstance(node, kind):
            yield from check(node)


def _is_refused_whole(node: exp.Expr) -> bool:
    """Whether one reason about the node says enough: those inside of it would only repeat it."""
    return (isinstance(node, exp.With) and bool(node.args.get("recursive"))) or _is_value(node)


def _is_value(node: exp.Expr) -> bool:
    """Whether it is a subquery that stands where an expression could stand."""
    parent = node.parent
    if parent is None or not isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
        return False
    if isinstance(parent, (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Subquery, exp.Lateral, exp.Exists)):
        return False
    return not (isinstance(parent, exp.In) and node.arg_key == "query")


def _check_limit(node: exp.Expr) -> Iterator[Reason]:
    remedy = "Filter by a condition, or use QUALIFY row_number() OVER (PARTITION BY …) <= n"
    yield reason_at(node, f"{node.key.upper()} depends on all rows", remedy)


def _check_with(node: exp.Expr) -> Iterator[Reason]:
    if node.args.get("recursive"):
        yield reason_at(node, "a recursive CTE", "Join the table with itself for a fixed number of levels")


def _check_group(node: exp.Expr) -> Iterator[Reason]:
    levels = any(node.args.get(name) for name in ("cube", "rollup", "grouping_sets", "totals"))
    if levels or any(isinstance(part, (exp.Cube, exp.Rollup, exp.GroupingSets)) for part in node.expressions):
        text = "ROLLUP, CUBE and GROUPING SETS have totals over all rows"
        yield reason_at(node, text, "Write one table for each GROUP BY, or one SELECT for each with UNION ALL")


def _check_window(node: exp.Expr) -> Iterator[Reason]:
    if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
        return
    if not any(part.find(exp.Column) for part in node.args.get("partition_by") or ()):
        yield reason_at(node, "window function without PARTITION BY", "Partition it, or say refresh: full")


def _check_join(node: exp.Expr) -> Iterator[Reason]:
    assert isinstance(node, exp.Join)  # noqa: S101 -- tells the type checker by what it was called
    side, method = node.side.upper(), node.method.upper()
    joins: list[exp.Join] = node.parent.args.get("joins") or [node] if node.parent is not None else [node]
    if side == "RIGHT":
        yield reason_at(node, "RIGHT JOIN", "Swap the two tables and write LEFT JOIN")
    elif side == "FULL" and joins[0] is not node:
        yield reason_at(node, "FULL JOIN after another join", "Write the FULL JOIN first, or in a derived table")
    if method or node.kind.upper() not in _JOIN_KINDS:
        yield reason_at(node, f"{method or node.kind} JOIN", "Write JOIN … ON")
    if node.args.get("using") and any(join.side.upper() == "FULL" for join in joins[: joins.index(node)]):
        # Spark compares the value of either side of the full join, sqlglot that of the left side alone.
        yield reason_at(node, "USING after a FULL JOIN", "Write JOIN … ON")
    yield from _check_arguments(node, _JOIN_ARGUMENTS)


def _check_select(node: exp.Expr) -> Iterator[Reason]:
    assert isinstance(node, exp.Select)  # noqa: S101 -- tells the type checker by what it was called
    if node.args.get("from_") is None:
        yield reason_at(node, "a query without FROM", "Write the constants into a table and read that")
    elif is_aggregated(node) and node.args.get("group") is None:
        yield reason_at(node, "an aggregate without GROUP BY", "Add GROUP BY, or say refresh: full")
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        yield reason_at(node, "DISTINCT ON", "Use QUALIFY row_number() OVER (PARTITION BY …) = 1")
    yield from _check_arguments(node, _SELECT_ARGUMENTS)


def _check_arguments(node: exp.Expr, known: frozenset[str]) -> Iterator[Reason]:
    for name, value in node.args.items():
        if value and name not in known:
            part = value[0] if isinstance(value, list) else value
            place = part if isinstance(part, exp.Expr) else node
            words = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
            yield reason_at(place, f"{words} is not planned incrementally", "Write it without, or say refresh: full")


def _check_table(node: exp.Expr) -> Iterator[Reason]:
    assert isinstance(node, exp.Table)  # noqa: S101 -- tells the type checker by what it was called
    if not is_named(node):
        yield reason_at(node, "a function in FROM", "Write its rows into a table and read that")
    if node.alias_column_names:
        yield reason_at(node, "new column names behind a table", "Rename them in a derived table: (SELECT … AS …)")
    yield from _check_arguments(node, _TABLE_ARGUMENTS)


def _check_source(node: exp.Expr) -> Iterator[Reason]:
    if not isinstance(node.this, (exp.Table, exp.Subquery)):
        yield reason_at(node, "an input that is neither a table nor a query", "Write its rows into a table")


def _check_subquery(node: exp.Expr) -> Iterator[Reason]:
    """Subqueries may be inputs, parts of set operations, or EXISTS and IN among the conditions of WHERE."""
    if isinstance(node, exp.Subquery):
        yield from _check_arguments(node, _SUBQUERY_ARGUMENTS)
        if isinstance(node.this, exp.Table) and not node.this.args.get("joins"):
            yield reason_at(node, "a table in parentheses", "Write it without them")
    if _is_value(node):
        yield reason_at(node, "a subquery as a value", "Join a derived table with GROUP BY instead")
    elif isinstance(node.parent, (exp.Exists, exp.In)):
        yield from _check_predicate(node.parent)


def _check_predicate(node: exp.Expr) -> Iterator[Reason]:
    word = "EXISTS" if isinstance(node, exp.Exists) else "IN"
    negated, parent = False, node.parent
    while isinstance(parent, (exp.Paren, exp.Not)):
        negated = negated ^ isinstance(parent, exp.Not)
        parent = parent.parent
    while isinstance(parent, (exp.Paren, exp.And)):
        parent = parent.parent
    if not isinstance(parent, exp.Where):
        remedy = "Write it as a condition of WHERE of its own, joined by AND"
        yield reason_at(node, f"{word} (subquery) inside another expression", remedy)
    elif negated and word == "IN":
        text = "NOT IN (subquery): one NULL in it decides about all rows"
        yield reason_at(node, text, "Write NOT EXISTS")


_SELECT_ARGUMENTS: Final = frozenset(
    [
        "with_",
        "expressions",
        "hint",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "windows",
        "order",
        "sort",
        "distribute",
        "cluster",
        "limit",
        "offset",
    ]
)
_JOIN_KINDS: Final = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
_JOIN_ARGUMENTS: Final = frozenset({"this", "on", "side", "kind", "using", "hint", "method"})
_TABLE_ARGUMENTS: Final = frozenset({"this", "alias", "db", "catalog", "hints"})
_SUBQUERY_ARGUMENTS: Final = frozenset({"this", "alias", "with_", "order", "sort", "limit", "offset"})
_SET_ARGUMENTS: Final = frozenset({"this", "expression", "distinct", "with_", "order", "sort", "limit", "offset"})
_WORDS: Final = {
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "version": "a fixed version of a table",
    "when": "a fixed version of a table",
    "joins": "a join in parentheses",
    "by_name": "UNION BY NAME",
}


def _check_set_operation(node: exp.Expr) -> Iterator[Reason]:
    yield from _check_arguments(node, _SET_ARGUMENTS)


_CHECKS: Final[tuple[tuple[type | tuple[type, ...], Callable[[exp.Expr], Iterator[Reason]]], ...]] = (
    ((exp.Limit, exp.Offset, exp.Fetch), _check_limit),
    (exp.With, _check_with),
    (exp.Group, _check_group),
    (exp.Window, _check_window),
    (exp.Join, _check_join),
    (exp.Select, _check_select),
    (exp.SetOperation, _check_set_operation),
    (exp.Table, _check_table),
    ((exp.From, exp.Join), _check_source),
    ((exp.Subquery, exp.Select, exp.SetOperation), _check_subquery),
)
