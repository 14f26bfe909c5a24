"""SQL that adds the changes of an input to the counts and sums of groups, without the groups' other rows.

A group's new count is its old one, plus its rows among those that the input gained, less its rows among those that it
lost. The table has the old one. Sums and extremes follow in the same way where that is provably exact. The other groups
are *unsure*, and the run recomputes them (docs/protocols.md, rules 8.29 and 8.30).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from firn.pipelines.joins import join_leaves
from firn.pipelines.maintainable import Aggregate, Groups, Measure, is_bigint, is_integer, read_precision
from firn.pipelines.parsing import DIALECT
from firn.pipelines.plan import State
from firn.pipelines.relations import table_at, to_sql, under_alias, union_all
from firn.pipelines.selects import Leaf, column

CHANGES: Final = "firn_group_changes"
"""The relation with one row for each group that has changed rows."""
CURRENT: Final = "firn_current"
"""The relation with the table's rows whose values of the scope are affected."""
UNSURE: Final = "firn_unsure"
"""The column of the maintained rows that says whether the group has to be recomputed."""
MOST_ROWS: Final = 10**9
"""Groups with more rows are recomputed: below it no sum of decimals overflows."""
_SIGN: Final = "firn_sign"


@dataclass(frozen=True)
class GroupChanges:
    """How a run adds changes to groups.

    `changes` is SQL of the relation `firn_group_changes`, over the changed rows of one input and the other inputs.
    `affected` is SQL of the affected values of the scope, over that relation. `maintained` is SQL of the new rows with
    affected values, over that relation and `firn_current`; its last column is `firn_unsure`.
    """

    changes: str
    affected: str
    maintained: str


def build_group_changes(groups: Groups, changed: Leaf, scope: Sequence[str]) -> GroupChanges:
    """The SQL for the changes of one input."""
    numbers = {name: number for number, (name, _) in enumerate(groups.columns)}
    values = ", ".join(f"g{numbers[name]} AS {_quote(name)}" for name in scope)
    return GroupChanges(
        changes=_sum_changes(groups, changed),
        affected=f"SELECT DISTINCT {values} FROM {CHANGES}",  # noqa: S608 -- quoted names
        maintained=_maintain(groups),
    )


def _sum_changes(groups: Groups, changed: Leaf) -> str:
    """SQL of what each group lost and gained, without groups that lost and gained the same."""
    rows = to_sql(_join_changed(groups, changed))
    keys = [f"g{number}" for number in range(len(groups.columns))]
    sums = ["sum(n) AS n", "sum(CASE WHEN n < 0 THEN 1 ELSE 0 END) AS lost"]
    for number, measure in enumerate(groups.measures):
        sums += _sum_measure(measure, f"{number}")
    columns = ", ".join([*keys, *sums])
    grouped = f"SELECT {columns} FROM ({rows}) AS firn_rows GROUP BY {', '.join(keys)}"  # noqa: S608 -- the query's own
    effects = ["n <> 0", *(_find_effect(measure, f"{number}") for number, measure in enumerate(groups.measures))]
    return f"SELECT * FROM ({grouped}) AS firn_sums WHERE {' OR '.join(filter(None, effects))}"  # noqa: S608 -- as above


def _join_changed(groups: Groups, changed: Leaf) -> exp.Select:
    """The rows of the join that hold a changed row, with its sign: the other inputs are the same at both states."""
    used = {part.name for part in groups.parts.select.find_all(exp.Column) if part.table == changed.alias}
    columns = [exp.column(name, quoted=True) for name in sorted(used)]
    sides: list[exp.Query] = [
        exp.select(*(part.copy() for part in columns), exp.alias_(sign, _SIGN)).from_(
            exp.to_table(f"{changed.table}__{state}")
        )
        for state, sign in ((State.BEFORE, _number(-1)), (State.AFTER, _number(1)))
    ]
    sources = {leaf.alias: table_at(leaf.table or "", State.NEW, leaf.alias) for leaf in groups.parts.leaves}
    sources[changed.alias] = under_alias(union_all(sides), changed.alias)
    outputs = [exp.alias_(value.copy(), f"g{number}") for number, (_, value) in enumerate(groups.columns)]
    outputs.append(exp.alias_(column(changed.alias, _SIGN), "n"))
    for number, measure in enumerate(groups.measures):
        if measure.value is not None:
            outputs.append(exp.alias_(measure.value.copy(), f"v{number}"))
    return join_leaves(exp.select(*outputs), groups.parts, sources)


def _sum_measure(measure: Measure, i: str) -> Iterator[str]:
    value, kind = f"v{i}", measure.kind
    if kind is Aggregate.COUNT:
        yield f"sum(CASE WHEN {value} IS NULL THEN 0 ELSE n END) AS c{i}"
    elif kind is Aggregate.SUM:
        wide = _widen(value, measure)
        yield f"sum(CASE WHEN n < 0 THEN -{wide} ELSE {wide} END) AS s{i}"
        yield f"sum(CASE WHEN n < 0 AND {value} IS NOT NULL THEN 1 ELSE 0 END) AS lost{i}"
        yield f"sum(CASE WHEN n > 0 AND {value} IS NOT NULL THEN 1 ELSE 0 END) AS gained{i}"
    elif kind in (Aggregate.MIN, Aggregate.MAX):
        yield f"{kind}(CASE WHEN n < 0 THEN {value} END) AS lost{i}"
        yield f"{kind}(CASE WHEN n > 0 THEN {value} END) AS gained{i}"


def _find_effect(measure: Measure, i: str) -> str:
    """SQL of whether the changes may give another value, in a group that has as many rows as before."""
    if measure.kind is Aggregate.COUNT:
        return f"c{i} <> 0"
    if measure.kind is Aggregate.SUM:  # a null that became a 0 changes no sum, unless it is the first value
        return f"coalesce(s{i}, 0) <> 0 OR lost{i} <> gained{i}"
    return "" if measure.kind is Aggregate.ROWS else f"NOT (lost{i} <=> gained{i})"


def _widen(value: str, measure: Measure) -> str:
    """A value of a type whose sums and negatives do not overflow."""
    argument = measure.value
    if argument is None or not is_integer(argument):
        return value
    return f"CAST({value} AS {'DECIMAL(20, 0)' if is_bigint(argument) else 'BIGINT'})"


def _maintain(groups: Groups) -> str:
    """SQL of the new rows: those of groups without changes as they are, and no row of a group that is empty now."""
    rows = _quote(groups.rows.name)
    count = f"coalesce(c.{rows}, 0) + coalesce(d.n, 0)"
    doubts = [
        "c.firn_had IS NULL AND d.lost > 0",  # the table lacks a group that had rows
        f"c.firn_had IS NOT NULL AND (c.{rows} IS NULL OR c.{rows} < d.lost OR c.{rows} >= {MOST_ROWS})",
        f"{count} >= {MOST_ROWS}",
    ]
    outputs = [f"coalesce(c.{_quote(name)}, d.g{i}) AS {_quote(name)}" for i, (name, _) in enumerate(groups.columns)]
    for number, measure in enumerate(groups.measures):
        value, doubt = _maintain_measure(measure, f"{number}", count)
        outputs.append(
            f"CASE WHEN d.n IS NULL THEN c.{_quote(measure.name)} ELSE {value} END AS {_quote(measure.name)}"
        )
        doubts += [] if doubt is None else [f"{count} > 0 AND ({doubt})"]
    doubt = " OR ".join(f"({part})" for part in doubts)
    same = " AND ".join(f"c.{_quote(name)} <=> d.g{i}" for i, (name, _) in enumerate(groups.columns))
    names = ", ".join(_quote(name) for name in groups.parts.select.named_selects)
    return (
        f"SELECT {names}, {UNSURE} FROM (SELECT {', '.join(outputs)}, {count} AS firn_count, "  # noqa: S608 -- as above
        f"d.n IS NOT NULL AND coalesce({doubt}, TRUE) AS {UNSURE} "
        f"FROM (SELECT *, 1 AS firn_had FROM {CURRENT}) AS c FULL JOIN {CHANGES} AS d ON {same}) AS firn_rows "
        f"WHERE {UNSURE} OR coalesce(firn_count, 1) <> 0"
    )


def _maintain_measure(measure: Measure, i: str, count: str) -> tuple[str, str | None]:
    """SQL of the new value, and of when it is not sure, of a group that has rows."""
    old = f"c.{_quote(measure.name)}"
    if measure.kind is Aggregate.ROWS:
        return count, None
    if measure.kind is Aggregate.COUNT:
        value = f"coalesce({old}, 0) + d.c{i}"
        return value, f"c.firn_had IS NOT NULL AND {old} IS NULL OR {value} < 0 OR {value} > {count}"
    if measure.kind is Aggregate.SUM:
        return _maintain_sum(measure, old, i)
    return _maintain_extreme(measure.kind, old, i)


def _maintain_sum(measure: Measure, old: str, i: str) -> tuple[str, str]:
    """A sum is null if all values are. If none is left, what the group lost is the old sum: then the new one is 0."""
    argument = measure.value
    assert isinstance(argument, exp.Column)  # noqa: S101 -- tells the type checker what sums read
    if is_integer(argument):
        type_, wide, change = "BIGINT", f"CAST({old} AS DECIMAL(20, 0))", f"CAST(d.s{i} AS DECIMAL(30, 0))"
    else:
        precision, scale = read_precision(argument)
        type_, wide, change = f"DECIMAL({precision + 10}, {scale})", old, f"d.s{i}"
    total = f"{wide} + coalesce({change}, 0)"
    value = f"CASE WHEN {old} IS NULL THEN {change} ELSE {total} END"
    fitting = f"TRY_CAST({value} AS {type_})"
    doubts = (
        f"{old} IS NULL AND d.lost{i} > 0",
        f"{old} IS NOT NULL AND d.lost{i} > 0 AND d.gained{i} = 0 AND {total} = 0",
        f"({value}) IS NOT NULL AND {fitting} IS NULL",
    )
    return fitting, " OR ".join(f"({doubt})" for doubt in doubts)


def _maintain_extreme(kind: Aggregate, old: str, i: str) -> tuple[str, str]:
    """The largest value stays if the group lost smaller ones only, or gained one that is not smaller."""
    beyond, within = (">", "<") if kind is Aggregate.MAX else ("<", ">")
    lost, gained = f"d.lost{i}", f"d.gained{i}"
    value = f"CASE WHEN {old} IS NULL OR {gained} {beyond} {old} THEN coalesce({gained}, {old}) ELSE {old} END"
    replaced = f"{lost} = {old} AND ({gained} IS NULL OR {gained} {within} {lost})"
    return value, f"{lost} IS NOT NULL AND ({old} IS NULL OR {lost} {beyond} {old} OR ({replaced}))"


def _quote(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)


def _number(value: int) -> exp.Expr:
    return exp.convert(value)
