"""The inputs of a SELECT: tables, derived tables, and the subqueries of EXISTS and IN as semi and anti joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlglot import exp

from firn.pipelines.full_reasons import NotIncremental, is_aggregated, reason_at

PREFIX = "firn_"
"""Aliases that the planner makes begin with it; `normalize` gives all others the form `_N`."""


class Side(Enum):
    """How the rows of an input take part in the rows of its SELECT."""

    FROM = auto()
    INNER = auto()
    LEFT = auto()
    FULL = auto()
    SEMI = auto()
    ANTI = auto()


@dataclass(frozen=True)
class Leaf:
    """One input of a SELECT: a table or a derived query. `on` is the condition of its join.

    `origin` is the alias that the query has for the table of an EXISTS or IN, `name` that of a CTE.
    """

    alias: str
    side: Side
    on: exp.Expr | None
    table: str | None = None
    query: exp.Query | None = None
    name: str | None = None
    origin: str | None = None

    @property
    def is_component(self) -> bool:
        """Whether each row of the join holds one of its rows."""
        return self.side in (Side.FROM, Side.INNER)


@dataclass(frozen=True)
class Parts:
    """A SELECT taken apart: its inputs in order, and the conditions of WHERE that have no subquery."""

    select: exp.Select
    leaves: tuple[Leaf, ...]
    conditions: tuple[exp.Expr, ...]

    @property
    def full_join(self) -> tuple[Leaf, Leaf] | None:
        """The two sides of a FULL JOIN, which only the first join can be."""
        if len(self.leaves) > 1 and self.leaves[1].side is Side.FULL:
            return self.leaves[0], self.leaves[1]
        return None

    def output(self, name: str) -> exp.Expr:
        """The expression of an output column."""
        outputs: list[exp.Expr] = self.select.expressions
        return next(output.unalias() for output in outputs if output.alias_or_name == name)


def take_apart(select: exp.Select) -> Parts:
    """The parts of a normalized SELECT. Raises NotIncremental for an EXISTS or IN that cannot be a join."""
    leaves = [_read_source(select.args["from_"].this, Side.FROM, None)]
    joins = select.args.get("joins") or ()
    leaves.extend(_read_source(join.this, _read_side(join), join.args.get("on")) for join in joins)
    conditions = []
    for condition in split_conditions(select.args.get("where")):
        leaf = _read_predicate(condition, len(leaves))
        if leaf is None:
            conditions.append(condition)
        else:
            leaves.append(leaf)
    return Parts(select, tuple(leaves), tuple(conditions))


def split_conditions(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that AND joins, without their parentheses."""
    if isinstance(node, (exp.Where, exp.Paren)):
        yield from split_conditions(node.this)
    elif isinstance(node, exp.And):
        for part in node.flatten():
            yield from split_conditions(part)
    elif node is not None:
        yield node


def unwrap(query: exp.Expr) -> exp.Query:
    """A query without parentheses around it."""
    while isinstance(query, exp.Subquery):
        query = query.this
    assert isinstance(query, exp.Query)  # noqa: S101 -- tells the type checker what subqueries hold
    return query


def _read_source(node: exp.Expr, side: Side, on: exp.Expr | None) -> Leaf:
    if isinstance(node, exp.Table):
        return Leaf(node.alias, side, on, table=node.name)
    return Leaf(node.alias, side, on, query=unwrap(node), name=node.meta.get("firn_cte"))


def _read_side(join: exp.Join) -> Side:
    kind, side = join.kind.upper(), join.side.upper()
    if kind in ("SEMI", "ANTI"):
        return Side[kind]
    return Side[side] if side in ("LEFT", "FULL") else Side.INNER


def _read_predicate(condition: exp.Expr, number: int) -> Leaf | None:
    """EXISTS, NOT EXISTS or IN as a join; None for a condition without subquery."""
    negated, inner = False, condition
    while isinstance(inner, (exp.Not, exp.Paren)):
        negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    side = Side.ANTI if negated else Side.SEMI
    if isinstance(inner, exp.Exists):
        return _read_exists(inner, unwrap(inner.this), [], side, f"{PREFIX}s{number}")
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        return _read_in(inner, side, f"{PREFIX}s{number}")
    return None


def _read_in(node: exp.In, side: Side, alias: str) -> Leaf:
    query = unwrap(node.args["query"])
    values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    if isinstance(query, exp.Select) and _is_plain(query):
        pairs = [
            exp.EQ(this=v.copy(), expression=c.unalias().copy()) for v, c in zip(values, query.selects, strict=True)
        ]
        return _read_exists(node, query, pairs, side, alias)
    if find_outer_columns(query):
        text = "IN that reads outer columns through GROUP BY, a window or a set operation"
        raise NotIncremental(reason_at(node, text, "Write it as a derived table, and join that"))
    columns = [column(alias, output.alias_or_name, output.type) for output in query.selects]
    on = exp.and_(*(exp.EQ(this=v.copy(), expression=c) for v, c in zip(values, columns, strict=True)))
    return Leaf(alias, side, on, query=query)


def _read_exists(node: exp.Expr, query: exp.Query, pairs: Sequence[exp.Expr], side: Side, alias: str) -> Leaf:
    if not isinstance(query, exp.Select) or not _is_plain(query):
        text = "EXISTS over GROUP BY, a window or a set operation"
        raise NotIncremental(reason_at(node, text, "Write it as a derived table, and join that"))
    local: list[exp.Expr] = []
    outer = list(pairs)
    for condition in split_conditions(query.args.get("where")):
        (outer if find_outer_columns(condition, query) else local).append(condition)
    if any(has_query(part) for part in outer):
        text = "a subquery that reads columns of two queries around it"
        raise NotIncremental(reason_at(node, text, "Join the tables inside of one EXISTS"))
    source = query.args["from_"].this
    if isinstance(source, exp.Table) and not query.args.get("joins") and not any(has_query(part) for part in local):
        on = exp.and_(*(part.copy() for part in [*local, *outer])) if local or outer else exp.true()
        return Leaf(alias, side, _rename(on, source.alias, alias), table=source.name, origin=source.alias)
    return _derive(node, query, local, outer, side, alias)


def _derive(
    node: exp.Expr, query: exp.Select, local: list[exp.Expr], outer: list[exp.Expr], side: Side, alias: str
) -> Leaf:
    """EXISTS over several tables: what does not depend on the outer query becomes a derived table."""
    inner = query.copy()
    inner.set("where", exp.Where(this=exp.and_(*(part.copy() for part in local))) if local else None)
    if find_outer_columns(inner):
        text = "EXISTS or IN that reads outer columns in another place than WHERE"
        raise NotIncremental(reason_at(node, text, "Move the condition to the WHERE of the subquery"))
    own = {source.alias for source in _sources(query)}
    names: dict[tuple[str, str], str] = {}
    on = exp.and_(*(part.copy() for part in outer)) if outer else exp.true()
    for part in list(on.find_all(exp.Column)):
        if part.table in own:
            name = names.setdefault((part.table, part.name), f"c{len(names)}")
            part.replace(column(alias, name, part.type))
    columns = [exp.alias_(column(table, name), new, quoted=True) for (table, name), new in names.items()]
    inner.set("expressions", columns or [exp.alias_(exp.Literal.number(1), "c0", quoted=True)])
    inner.set("distinct", None)
    return Leaf(alias, side, on, query=inner)


def find_outer_columns(node: exp.Expr, query: exp.Query | None = None) -> list[exp.Column]:
    """The columns in a node that no source inside of it has. `query` is the query that the node is part of."""
    aliases = {source.alias for source in _sources(node)} | {source.alias for source in _sources(query)}
    return [part for part in node.find_all(exp.Column) if part.table not in aliases]


def has_query(node: exp.Expr) -> bool:
    """Whether a subquery stands in it."""
    return node.find(exp.Select, exp.SetOperation) is not None


def column(table: str, name: str, type_: exp.DataType | None = None) -> exp.Column:
    """A quoted column."""
    node = exp.column(name, table=table, quoted=True)
    node.type = type_
    return node


def _is_plain(select: exp.Select) -> bool:
    """Whether its rows are those of its joins that pass WHERE, each for itself."""
    return not is_aggregated(select) and select.args.get("qualify") is None and not _has_window(select)


def _has_window(select: exp.Select) -> bool:
    return any(item.find(exp.Window) is not None for item in select.expressions)


def _sources(node: exp.Expr | None) -> list[exp.Expr]:
    return [] if node is None else [part for part in node.find_all(exp.Table, exp.Subquery) if part.alias]


def _rename(on: exp.Expr, old: str, new: str) -> exp.Expr:
    for part in on.find_all(exp.Column):
        if part.table == old:
            part.set("table", exp.to_identifier(new, quoted=True))
    return on
