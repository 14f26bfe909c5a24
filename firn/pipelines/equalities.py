"""Which column of an input equals a column of the result, so that its changed rows tell affected values without a join.

Two columns count as equal only if their types are equal: `7 = '07'` is true, and yet they are different values.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from firn.pipelines.selects import Leaf, Parts, Side, split_conditions

Pair = tuple[exp.Column, exp.Column]


def find_equal(parts: Parts, leaf: Leaf, output: exp.Expr) -> exp.Expr | None:
    """The expression over the columns of `leaf` that has the value of `output` in each row that a change of it affects.

    None if there is none. An affected row holds a row of the leaf (FROM, inner), or its preserved side matches one.
    """
    if parts.full_join is not None:
        return _find_in_full_join(parts, leaf, output)
    if leaf.is_component and _reads_only(output, leaf):
        return output
    if not isinstance(output, exp.Column) or is_nullable(leaf, output):
        return None
    return next((column for column in equal_columns(parts, leaf, output) if column.table == leaf.alias), None)


def is_nullable(leaf: Leaf, output: exp.Column) -> bool:
    """Whether the output is a column of the leaf, which is NULL in the affected rows that have no row of it."""
    return output.table == leaf.alias and not leaf.is_component


def equal_columns(parts: Parts, leaf: Leaf, output: exp.Column) -> list[exp.Column]:
    """The columns that equal `output` in each row that a change of `leaf` affects, `output` among them."""
    columns = [output]
    pairs = list(_hard_pairs(parts)) + (list(find_pairs(leaf.on)) if leaf.on is not None else [])
    while True:
        directed = [(mine, other) for pair in pairs for mine, other in (pair, pair[::-1])]
        more = [other for mine, other in directed if mine in columns and other not in columns]
        if not more:
            return columns
        columns.append(more[0])


def find_pairs(condition: exp.Expr | None) -> Iterator[Pair]:
    """The pairs of columns of one type that a condition holds equal."""
    for part in split_conditions(condition):
        left, right = (part.this, part.expression) if isinstance(part, exp.EQ) else (None, None)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column) and has_equal_types(left, right):
            yield left, right


def has_equal_types(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether both have one known type."""
    types = (left.type, right.type)
    return types[0] is not None and types[0] == types[1] and not types[0].is_type("unknown")


def join_values(parts: Parts) -> list[Pair]:
    """The columns by which a FULL JOIN compares its sides: the left one's and the right one's."""
    sides = parts.full_join
    if sides is None:
        return []
    left, right = sides
    pairs = []
    for mine, other in find_pairs(right.on):
        if mine.table == right.alias:
            mine, other = other, mine  # noqa: PLW2901 -- ON may write the sides in any order
        if mine.table == left.alias and other.table == right.alias:
            pairs.append((mine, other))
    return pairs


def _hard_pairs(parts: Parts) -> Iterator[Pair]:
    """The equalities that hold in every row of the join: those of inner joins and of WHERE."""
    for leaf in parts.leaves:
        if leaf.side is Side.INNER:
            yield from find_pairs(leaf.on)
    for condition in parts.conditions:
        yield from find_pairs(condition)


def _find_in_full_join(parts: Parts, leaf: Leaf, output: exp.Expr) -> exp.Expr | None:
    """A side's join column, if the output is the COALESCE of both sides' join columns."""
    if not isinstance(output, exp.Coalesce) or parts.full_join is None or leaf not in parts.full_join:
        return None
    values = [output.this, *output.expressions]
    for pair in join_values(parts):
        if len(values) == len(pair) and all(column in values for column in pair):
            return pair[0] if leaf is parts.full_join[0] else pair[1]
    return None


def _reads_only(node: exp.Expr, leaf: Leaf) -> bool:
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(column.table == leaf.alias for column in columns)
