"""How the changed rows of an input are followed to the rows of a SELECT's join."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from firn.pipelines.equalities import join_values
from firn.pipelines.full_reasons import NotIncremental, reason_at
from firn.pipelines.plan import Access, Term
from firn.pipelines.relations import null_safe_equal
from firn.pipelines.selects import Leaf, Parts, Side, column


def choose_access(parts: Parts, leaf: Leaf, equal: Mapping[str, exp.Expr | None]) -> Access:
    """How the changes of a leaf are followed. `equal` has its expression for each column of the scope, or None."""
    if all(value is not None for value in equal.values()):
        return Access.ROWS
    if parts.full_join is not None and leaf in parts.full_join:
        return Access.MATCH
    return Access.JOIN if leaf.is_component else Access.MATCH


def join_leaves(select: exp.Select, parts: Parts, sources: Mapping[str, exp.Expr]) -> exp.Select:
    """Add the joins and conditions of a SELECT to `select`, with `sources` in the places of the leaves."""
    conditions = [condition.copy() for condition in parts.conditions]
    for leaf in parts.leaves:
        source, on = sources[leaf.alias], None if leaf.on is None else leaf.on.copy()
        if leaf.side is Side.FROM:
            select = select.from_(source, copy=False)
        elif leaf.side is Side.INNER and on is None:
            select = select.join(source, join_type="cross", copy=False)
        elif leaf.side in (Side.INNER, Side.LEFT, Side.FULL):
            select = select.join(source, on=on or exp.true(), join_type=leaf.side.name.lower(), copy=False)
        else:
            exists = exp.Exists(this=exp.select("1").from_(source).where(on or exp.true()))
            conditions.append(exists if leaf.side is Side.SEMI else exp.not_(exists))
    return select.where(*conditions, copy=False) if conditions else select


def match_changed_row(parts: Parts, leaf: Leaf, changed: str) -> exp.Expr:
    """The condition that a row of the join matches a row of the leaf, which has the alias `changed`."""
    if parts.full_join is not None and leaf in parts.full_join:
        return _match_join_value(parts, leaf, changed)
    condition = (leaf.on or exp.true()).copy()
    for part in condition.find_all(exp.Column):
        if part.table == leaf.alias:
            part.set("table", exp.to_identifier(changed, quoted=True))
    return condition


def describe_term(parts: Parts, leaf: Leaf, equal: Mapping[str, exp.Expr | None], access: Access) -> Term:
    """What a plan says about the changes of a leaf. The inputs in it are prefixes."""
    return Term(
        inputs=_inputs(leaf),
        access=access,
        equal=tuple(name for name, value in equal.items() if value is not None),
        others=tuple(name for name, value in equal.items() if value is None),
        joined=tuple(dict.fromkeys(name for other in parts.leaves if other is not leaf for name in _inputs(other))),
        derived=leaf.name,
    )


def _match_join_value(parts: Parts, leaf: Leaf, changed: str) -> exp.Expr:
    """Both sides of a FULL JOIN are restricted by the join value, of whichever side a row has."""
    pairs = join_values(parts)
    if not pairs:
        text = "FULL JOIN without an equality of two columns of one type"
        raise NotIncremental(
            reason_at(parts.leaves[1].on or parts.select, text, "Compare columns, and cast them in a derived table")
        )
    number = 1 if leaf.side is Side.FULL else 0
    return exp.and_(
        *(
            null_safe_equal(
                column(changed, pair[number].name), exp.Coalesce(this=pair[0].copy(), expressions=[pair[1].copy()])
            )
            for pair in pairs
        )
    )


def _inputs(leaf: Leaf) -> tuple[str, ...]:
    if leaf.query is None:
        return (leaf.table or "",)
    return tuple(dict.fromkeys(table.name for table in leaf.query.find_all(exp.Table)))
