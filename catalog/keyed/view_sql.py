"""The Spark SQL of a keyed table: what readers see, and what its merges need to know.

All of it comes from one `Pair`, so the view, both kinds of merge and the touched partitions can never disagree about
which change takes effect. A column may have any name: names are quoted and qualified, and everything the SQL introduces
itself (`k0`, `s`, `i`) is out of reach of the table's own columns.

    newest      one row per pending key: which of its changes is the newest     k0 … s, i
    held        with a sequence field: what base holds of these keys            k0 … s
    deleted     with a sequence field: merged deletes still in change           k0 … s
    effective   the newest changes that take effect (docs/protocols.md, rule 1.2)              k0 … i
                on an insert-only table, the oldest ones of keys that base has not (rule 1.9)
    folded      with partial columns: one row per pending key, of all its changes              k0 … o, r, f0 …

`i` is a change's row id, which Iceberg gives to one row of a table only (table specification, row lineage); it grows
from commit to commit, and within a commit in the order of writing. Who is the newest is decided on keys and numbers
alone, which Spark aggregates by hash; the changes themselves are looked up by key and row id, with no more columns than
a reader asks for. `newest` is written alike wherever it stands, so that Spark computes it once.
"""

# ruff: noqa: S608 -- the SQL is made of quoted names and numbers only; values never enter it

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.keyed.column_rules import check_sum
from catalog.keyed.group_sql import fold_grouped, patch_grouped, update_grouped
from catalog.keyed.partial import Folding
from catalog.keyed.schema import OP
from catalog.keyed.spec import KeyScope, KeySpec
from firn.protocol.partial import SET, ColumnRule

_LAST_DELETE = "`firn last delete`"
Expression = Callable[[str], str]
"""Turns a quoted column reference into an expression over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both stores of a keyed table at one moment, as references in SQL.

    `base` and `change` are quoted table references. `watermark` is the base snapshot's; `pending` tells whether the
    change snapshot holds changes above it. Changes above `through`, if it is set, do not count.
    """

    spec: KeySpec
    columns: Sequence[str]
    base: str
    change: str
    watermark: int
    pending: bool
    folding: Folding | None
    """How changes are folded that set some columns only; None if every change sets all."""
    through: int | None = None


def name_pinned_view(store: str, snapshot_id: int | None, schema_id: int) -> str:
    """The name of a store pinned to one snapshot and schema: `base_at_7_0`, `change_at_none_0`."""
    return f"{store}_at_{'none' if snapshot_id is None else snapshot_id}_{schema_id}"


def quote_name(*parts: str) -> str:
    """A name of one or more parts, quoted for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def build_merged_sql(pair: Pair) -> str:
    """The rows of the keyed table: base, and the pending changes that take effect, one row per key.

    The changes come first, because Spark renames the columns of a union's first branch in a view and copies every row
    of that branch. For base this took a third of a scan.
    """
    if not pair.pending:
        return f"SELECT {', '.join(map(quote_name, pair.columns))} FROM {pair.base}"
    if pair.folding is not None:
        return _build_partial_sql(pair)
    kept = "" if pair.spec.is_insert_only else f" LEFT ANTI JOIN newest AS n ON {_match_replaced(pair)}"
    return (
        f"WITH {_build_ctes(pair)}\n"
        f"SELECT {_list_columns(pair, 'c')} {_build_from_effective(pair)} AND c.{OP} <> 'D'\n"
        f"UNION ALL\n"
        f"SELECT {_list_columns(pair, 'b')} FROM {pair.base} AS b{kept}"
    )


def build_effective_sql(pair: Pair) -> str:
    """The changes that take effect, one row per key: the table's columns and `_op`.

    With partial columns, all changes of a key are one: each column has the newest value that one of them set, and the
    array `_set` says for the columns in order whether a change set them. The others are null here. Of a column with a
    rule, and of a sequence field, it says whether the value is the row's; if not, it has to be combined with base's
    (`build_update_sql`).
    """
    if pair.folding is not None:
        values = [f"{_fold_value(pair, i)} AS {quote_name(name)}" for i, name in enumerate(pair.columns)]
        set_column = f"array({', '.join(_is_given(pair, i) for i in range(len(pair.columns)))}) AS {SET}"
        return f"WITH {_build_folded(pair)}\nSELECT {', '.join([*values, f'f.o AS {OP}', set_column])} FROM folded AS f"
    return f"WITH {_build_ctes(pair)}\nSELECT {_list_columns(pair, 'c')}, c.{OP} {_build_from_effective(pair)}"


def build_update_sql(pair: Pair) -> str:
    """The assignments of MERGE INTO to the columns of a row `t` that has changes `s` (`build_updates`)."""
    return ", ".join(f"t.{quote_name(name)} = {value}" for name, value in build_updates(pair).items())


def build_updates(pair: Pair) -> dict[str, str]:
    """The new value of each column outside of the key of a row `t` that has changes `s`, as `build_effective_sql` gives
    them for a table with partial columns.
    """
    updates = {}
    for number, name in enumerate(pair.columns):
        column = quote_name(name)
        if name in pair.spec.primary_key:
            continue
        if (sequence := _get_sequence(pair, number)) is not None:
            field = quote_name(pair.columns[sequence])
            updates[name] = update_grouped(column, field, number=number, sequence=sequence)
        else:
            old = (
                f"t.{column}"
                if _get_rule(pair, number) is None
                else _combine(pair, number, f"t.{column}", f"s.{column}")
            )
            updates[name] = f"IF(s.{SET}[{number}], s.{column}, {old})"
    return updates


def _get_rule(pair: Pair, number: int) -> ColumnRule | None:
    return None if pair.folding is None else pair.folding.rules[number]


def _get_sequence(pair: Pair, number: int) -> int | None:
    """The number of the sequence field of a column's group; None for a column in no group."""
    name = None if pair.folding is None else pair.folding.sequences[number]
    return None if name is None else list(pair.columns).index(name)


def _combine(pair: Pair, number: int, old: str, new: str) -> str:
    """The value of a column with a rule, from base's value and that of the changes. Null is no value."""
    match _get_rule(pair, number):
        case ColumnRule.MAX:
            return f"greatest({old}, {new})"
        case ColumnRule.MIN:
            return f"least({old}, {new})"
        case ColumnRule.FIRST:
            return f"coalesce({old}, {new})"
        case ColumnRule.SUM:
            total = check_sum(_get_kind(pair, number), f"{_widen(pair, number, old)} + {_widen(pair, number, new)}")
            return f"CASE WHEN {old} IS NULL THEN {new} WHEN {new} IS NULL THEN {old} ELSE {total} END"
        case _:
            return f"coalesce({new}, {old})"


def _widen(pair: Pair, number: int, value: str) -> str:
    """A value to add up: a decimal, whose sum Spark makes wide enough by itself."""
    return f"CAST({value} AS DECIMAL(38, 0))" if _get_kind(pair, number) == "long" else value


def _get_kind(pair: Pair, number: int) -> str:
    """The Iceberg type of a column with a rule."""
    return "" if pair.folding is None else pair.folding.types[number]


def _build_partial_sql(pair: Pair) -> str:
    """The merged rows of a table with partial columns (docs/protocols.md, rule 1.7).

    If a key was deleted, or set as a whole, its row comes from changes alone, as if base had none. Otherwise each of
    its rows in base gets the new values; rows that somebody appended to base may share a key. The conditions on `f` are
    alike in both branches, so that Spark computes `folded` once.
    """
    new = ", ".join(f"{_fold_value(pair, i)} AS {quote_name(name)}" for i, name in enumerate(pair.columns))
    patched = ", ".join(_patch_column(pair, i) for i in range(len(pair.columns)))
    same = _match_keys(pair, "b", "f")
    return (
        f"WITH {_build_folded(pair)}\n"
        f"SELECT {new} FROM folded AS f LEFT ANTI JOIN {pair.base} AS b ON {same} AND NOT f.r WHERE f.o <> 'D'\n"
        f"UNION ALL\n"
        f"SELECT {patched} FROM {pair.base} AS b LEFT JOIN folded AS f ON {same} WHERE f.r IS NULL OR NOT f.r"
    )


def _patch_column(pair: Pair, number: int) -> str:
    name = pair.columns[number]
    old = f"b.{quote_name(name)}"
    if name in pair.spec.primary_key:
        return old
    new = f"f.f{number}.v"
    if (sequence := _get_sequence(pair, number)) is not None:
        field = quote_name(pair.columns[sequence])
        patched = patch_grouped(quote_name(name), field, number=number, sequence=sequence)
        return f"{patched} AS {quote_name(name)}"
    value = new if _get_rule(pair, number) is None else _combine(pair, number, old, new)
    return f"CASE WHEN f.f{number} IS NULL THEN {old} ELSE {value} END AS {quote_name(name)}"


def _build_folded(pair: Pair) -> str:
    """One row for each pending key: `o` is its newest operation, `r` says that no column is left as base has it, and
    `f0`, `f1` … hold the value `v` of each column that a change set; null for the others and for key columns.

    A delete sets all columns to null, so it needs no second pass over the changes before it. Only rules of columns do,
    which combine the values since the last delete, and groups, which choose one of them.
    """
    folding = pair.folding or Folding(ids=(), rules=(), types=(), sequences=())
    is_whole, is_deleted = f"(c.{SET} IS NULL OR c.{OP} = 'D')", f"c.{OP} = 'D'"
    resets_by_delete = any(folding.rules) or any(folding.sequences)
    values = [
        _fold_column(pair, number, f"({is_whole} OR find_in_set('{field_id}', c.{SET}) > 0)")
        for number, field_id in enumerate(folding.ids)
        if pair.columns[number] not in pair.spec.primary_key
    ]
    # A column with a rule, or in a group, needs base's value even if a change sets all columns.
    is_reset = is_deleted if resets_by_delete else is_whole
    facts = [f"max_by(c.{OP}, c._row_id) AS o", f"max({is_reset}) AS r", *values]
    return (
        f"folded AS (SELECT {_list_keys(pair, 'c')}, {', '.join(facts)}"
        f" FROM {_with_last_delete(pair) if resets_by_delete else pair.change} AS c"
        f" WHERE {_filter_above(pair)} {_group_by_key(pair, 'c')})"
    )


def _with_last_delete(pair: Pair) -> str:
    """The pending changes with the row id of the last delete of their key; -1 if there is none."""
    keys = ", ".join(f"c.{quote_name(key)}" for key in pair.spec.primary_key)
    columns = [f"c.{quote_name(name)}" for name in pair.columns]
    columns += [f"c.{OP}", f"c.{SET}", "c._row_id", "c._last_updated_sequence_number"]
    last = f"max(CASE WHEN c.{OP} = 'D' THEN c._row_id ELSE -1L END) OVER (PARTITION BY {keys}) AS {_LAST_DELETE}"
    return f"(SELECT {', '.join(columns)}, {last} FROM {pair.change} AS c WHERE {_filter_above(pair)})"


def _fold_column(pair: Pair, number: int, is_given: str) -> str:
    column, rule = f"c.{quote_name(pair.columns[number])}", _get_rule(pair, number)
    if pair.folding is not None and (sequence := _get_sequence(pair, number)) is not None:
        name = pair.columns[sequence]
        members = [i for own, i in zip(pair.folding.sequences, pair.folding.ids, strict=True) if own == name]
        return f"{fold_grouped(quote_name(pair.columns[number]), quote_name(name), members, _LAST_DELETE)} AS f{number}"
    if rule is None:
        value = f"max_by(struct(CASE WHEN c.{OP} <> 'D' THEN {column} END AS v), c._row_id) FILTER (WHERE {is_given})"
        return f"{value} AS f{number}"
    counts = f"FILTER (WHERE {is_given} AND c._row_id > c.{_LAST_DELETE} AND {column} IS NOT NULL)"
    match rule:
        case ColumnRule.SUM:
            value = check_sum(_get_kind(pair, number), f"sum({_widen(pair, number, column)}) {counts}")
        case ColumnRule.MAX | ColumnRule.MIN:
            value = f"{rule}({column}) {counts}"
        case ColumnRule.FIRST:
            value = f"min_by({column}, c._row_id) {counts}"
        case _:
            value = f"max_by({column}, c._row_id) {counts}"
    return f"struct({value} AS v) AS f{number}"


def _fold_value(pair: Pair, number: int) -> str:
    """The value of a column in `folded AS f`: null where no change set it."""
    name = pair.columns[number]
    return f"f.k{pair.spec.primary_key.index(name)}" if name in pair.spec.primary_key else f"f.f{number}.v"


def _is_given(pair: Pair, number: int) -> str:
    if pair.columns[number] in pair.spec.primary_key:
        return "true"
    if (sequence := _get_sequence(pair, number)) is not None:
        return "f.r" if number == sequence else f"(f.r OR f.f{number} IS NOT NULL)"
    return f"f.f{number} IS NOT NULL" if _get_rule(pair, number) is None else "f.r"


def build_touched_partitions_sql(pair: Pair, partition: Sequence[tuple[str, Expression]]) -> str:
    """The distinct partitions that a merge of this pair changes, as columns `p0`, `p1` …

    `partition` gives each partition field's column and transform. The result holds the partitions of the changed rows.
    Where a key may move, it also holds the partitions in which base has the changed keys now.
    """
    if pair.spec.scope is KeyScope.PARTITION:
        return f"WITH {_build_ctes(pair)}\n{_select_targets(pair, partition)}"
    if pair.spec.is_insert_only:  # no row of base changes
        return build_target_partitions_sql(pair, partition)
    held = (
        f"SELECT DISTINCT {_list_transformed('b', partition)} FROM {pair.base} AS b"
        f" LEFT SEMI JOIN newest AS n ON {_match_replaced(pair)}"
    )
    return f"{build_target_partitions_sql(pair, partition)}\nUNION\n{held}"


def build_target_partitions_sql(pair: Pair, partition: Sequence[tuple[str, Expression]]) -> str:
    """The touched partitions that the merge writes rows to. Without a sequence field this does not read base."""
    return f"WITH {_build_ctes(pair)}\n{_select_targets(pair, partition)} AND c.{OP} <> 'D'"


def _select_targets(pair: Pair, partition: Sequence[tuple[str, Expression]]) -> str:
    return f"SELECT DISTINCT {_list_transformed('c', partition)} {_build_from_effective(pair)}"


def _list_columns(pair: Pair, alias: str) -> str:
    return ", ".join(f"{alias}.{quote_name(name)}" for name in pair.columns)


def _list_transformed(alias: str, partition: Sequence[tuple[str, Expression]]) -> str:
    return ", ".join(
        f"{transform(f'{alias}.{quote_name(name)}')} AS p{i}" for i, (name, transform) in enumerate(partition)
    )


def _list_keys(pair: Pair, alias: str) -> str:
    """The key columns of a store under their names in joins."""
    return ", ".join(f"{alias}.{quote_name(key)} AS k{i}" for i, key in enumerate(pair.spec.primary_key))


def _group_by_key(pair: Pair, alias: str) -> str:
    return "GROUP BY " + ", ".join(f"{alias}.{quote_name(key)}" for key in pair.spec.primary_key)


def _match_keys(pair: Pair, store: str, other: str) -> str:
    return " AND ".join(f"{store}.{quote_name(key)} = {other}.k{i}" for i, key in enumerate(pair.spec.primary_key))


def _join_keys(pair: Pair, other: str) -> str:
    return " AND ".join(f"n.k{i} = {other}.k{i}" for i in range(len(pair.spec.primary_key)))


def _filter_above(pair: Pair) -> str:
    above = f"c._last_updated_sequence_number > {pair.watermark}"
    return above if pair.through is None else f"{above} AND c._last_updated_sequence_number <= {pair.through}"


def _filter_merged(pair: Pair) -> str:
    return f"c._last_updated_sequence_number <= {pair.watermark}"


def _select_newest(pair: Pair) -> str:
    grouped = f"FROM {pair.change} AS c WHERE {_filter_above(pair)} {_group_by_key(pair, 'c')}"
    if pair.spec.is_insert_only:
        inserts = f"FROM {pair.change} AS c WHERE {_filter_above(pair)} AND c.{OP} <> 'D' {_group_by_key(pair, 'c')}"
        return f"SELECT {_list_keys(pair, 'c')}, min(c._row_id) AS i {inserts}"
    if pair.spec.sequence_field is None:
        return f"SELECT {_list_keys(pair, 'c')}, max(c._row_id) AS i {grouped}"
    keys = ", ".join(f"k{i}" for i in range(len(pair.spec.primary_key)))
    greatest = f"max(struct(c.{quote_name(pair.spec.sequence_field)} AS s, c._row_id AS i))"
    return f"SELECT {keys}, m.s AS s, m.i AS i FROM (SELECT {_list_keys(pair, 'c')}, {greatest} AS m {grouped})"


def _build_ctes(pair: Pair) -> str:
    newest = f"newest AS ({_select_newest(pair)})"
    if pair.spec.is_insert_only:
        held = f"{pair.base} AS b ON {_match_keys(pair, 'b', 'n')}"
        return f"{newest},\neffective AS (SELECT n.* FROM newest AS n LEFT ANTI JOIN {held})"
    if pair.spec.sequence_field is None:
        return newest
    sequence = quote_name(pair.spec.sequence_field)
    keys = ", ".join(f"k{i}" for i in range(len(pair.spec.primary_key)))
    own = ", ".join(f"n.k{i}" for i in range(len(pair.spec.primary_key)))
    return (
        f"{newest},\n"
        # Grouped, because rows that Hive wrote may share a key, and a change must take effect only once.
        f"held AS (SELECT {_list_keys(pair, 'b')}, max(b.{sequence}) AS s FROM {pair.base} AS b"
        f" LEFT SEMI JOIN newest AS n ON {_match_keys(pair, 'b', 'n')} {_group_by_key(pair, 'b')}),\n"
        f"deleted AS (SELECT {_list_keys(pair, 'c')}, max(c.{sequence}) AS s FROM {pair.change} AS c"
        f" WHERE {_filter_merged(pair)} AND c.{OP} = 'D' {_group_by_key(pair, 'c')}),\n"
        f"effective AS (SELECT {own}, n.i FROM newest AS n"
        f" LEFT JOIN (SELECT {keys}, s, true AS here FROM held) AS h ON {_join_keys(pair, 'h')}"
        f" LEFT JOIN deleted AS d ON {_join_keys(pair, 'd')}"
        # A base row, if there is one, is the only opponent; otherwise the newest merged delete is. Both lose ties, and
        # null loses.
        f" WHERE CASE WHEN h.here THEN h.s IS NULL OR n.s >= h.s ELSE d.s IS NULL OR n.s >= d.s END)"
    )


def _build_from_effective(pair: Pair) -> str:
    """FROM and WHERE of a query over the changes `c` that take effect.

    The row id alone would find them. With the key, a reader's condition on it also reaches `newest`, so a lookup of
    one key aggregates no others. BETWEEN instead of `=` leaves the key as the only hash key.
    """
    effective = "effective" if pair.spec.sequence_field or pair.spec.is_insert_only else "newest"
    same = f"{_match_keys(pair, 'c', 'e')} AND c._row_id BETWEEN e.i AND e.i"
    return f"FROM {pair.change} AS c LEFT SEMI JOIN {effective} AS e ON {same} WHERE {_filter_above(pair)}"


def _match_replaced(pair: Pair) -> str:
    """The condition under which a base row `b` gives way to the pending key `n`.

    `n.i` is never null. The explicit condition keeps Spark from computing a second `newest` without `i`.
    """
    same = f"{_match_keys(pair, 'b', 'n')} AND n.i IS NOT NULL"
    if pair.spec.sequence_field is None:
        return same
    held = f"b.{quote_name(pair.spec.sequence_field)}"
    return f"{same} AND ({held} IS NULL OR n.s >= {held})"
