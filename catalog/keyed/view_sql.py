"""The Spark SQL of a keyed table: what readers see, and what its merges need to know.

All of it comes from one `Pair`, so the view, both kinds of merge and the touched partitions can never disagree about
which change takes effect. A column may have any name: names are quoted, and everything the SQL introduces itself
(`k0`, `c1`, `op` …) is named by position, out of reach of the table's own columns.

    newest      one row per pending key: its newest change                     k0 … r(c1 …, op)
    held        with a sequence field: what base holds of these keys           k0 … s
    deleted     with a sequence field: merged deletes still in change          k0 … s
    effective   the changes that take effect (protocol 1.2)                    k0 … r(c1 …, op)
"""

# ruff: noqa: S608 -- the SQL is made of quoted names and numbers only; values never enter it

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catalog.keyed.schema import OP
from catalog.keyed.spec import KeyScope, KeySpec

Expression = Callable[[str], str]
"""Turns a quoted column reference into an expression over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both stores of a keyed table at one moment, as the SQL names them.

    `base` and `change` are table references, quoted already. `watermark` is the base snapshot's; `pending` says
    whether the change snapshot holds anything above it.
    """

    spec: KeySpec
    columns: Sequence[str]
    base: str
    change: str
    watermark: int
    pending: bool


def pinned_name(store: str, snapshot_id: int | None, schema_id: int) -> str:
    """The name under which a store is served as it was at one snapshot: `base_at_7_0`, `change_at_none_0`."""
    return f"{store}_at_{'none' if snapshot_id is None else snapshot_id}_{schema_id}"


def quoted(*parts: str) -> str:
    """A name of one or more parts, as Spark SQL reads it whatever characters it is made of."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def merged_sql(pair: Pair) -> str:
    """What the keyed table holds: base, and the pending changes that take effect, one row per key."""
    if not pair.pending:
        return f"SELECT {_listed(pair.columns)} FROM {pair.base}"
    kept = ", ".join(f"b.{quoted(name)}" for name in pair.columns)
    return (
        f"WITH {_ctes(pair)}\n"
        f"SELECT {kept} FROM {pair.base} AS b LEFT ANTI JOIN ({_replaced(pair)}) AS n ON {_replaces(pair)}\n"
        f"UNION ALL\n"
        f"SELECT {_unpacked(pair)} FROM {_effective(pair)} WHERE r.op <> 'D'"
    )


def effective_sql(pair: Pair) -> str:
    """The changes that take effect, one row per key: the table's columns and `_op`."""
    return f"WITH {_ctes(pair)}\nSELECT {_unpacked(pair)}, r.op AS {OP} FROM {_effective(pair)}"


def touched_sql(pair: Pair, partition: Sequence[tuple[str, Expression]]) -> str:
    """The distinct partitions that a merge of this pair changes, as columns `p0`, `p1` …

    `partition` gives each partition field's column and transform. They are those that the changes lead to and,
    where a key may move, those where base holds the changed keys now.
    """
    pair = _narrow(pair, [name for name, _ in partition])
    slots = _slots(pair)
    moves = pair.spec.scope is KeyScope.GLOBAL
    to = ", ".join(f"{transform(slots[name])} AS p{i}" for i, (name, transform) in enumerate(partition))
    led_to = f"SELECT DISTINCT {to} FROM {_effective(pair)}" + (" WHERE r.op <> 'D'" if moves else "")
    if not moves:
        return f"WITH {_ctes(pair)}\n{led_to}"
    now = ", ".join(f"{transform('b.' + quoted(name))} AS p{i}" for i, (name, transform) in enumerate(partition))
    held = f"SELECT DISTINCT {now} FROM {pair.base} AS b LEFT SEMI JOIN ({_replaced(pair)}) AS n ON {_replaces(pair)}"
    return f"WITH {_ctes(pair)}\n{led_to}\nUNION\n{held}"


def _narrow(pair: Pair, needed: Sequence[str]) -> Pair:
    """The pair with no more columns than decide about a key's newest change and `needed`: others are not read."""
    kept = {*needed, *pair.spec.primary_key, pair.spec.sequence_field}
    return replace(pair, columns=[name for name in pair.columns if name in kept])


def _slots(pair: Pair) -> dict[str, str]:
    """Where `newest` keeps each column."""
    keys = {key: f"k{i}" for i, key in enumerate(pair.spec.primary_key)}
    return {name: keys.get(name, f"r.c{i}") for i, name in enumerate(pair.columns)}


def _above(pair: Pair) -> str:
    return f"{pair.change} WHERE _last_updated_sequence_number > {pair.watermark}"


def _keys(pair: Pair, alias: str = "") -> str:
    """The key columns of a store under the names that joins use."""
    return ", ".join(f"{alias}{quoted(key)} AS k{i}" for i, key in enumerate(pair.spec.primary_key))


def _grouped(pair: Pair, alias: str = "") -> str:
    return "GROUP BY " + ", ".join(alias + quoted(key) for key in pair.spec.primary_key)


def _same_key(pair: Pair, store: str, other: str) -> str:
    return " AND ".join(f"{store}.{quoted(key)} = {other}.k{i}" for i, key in enumerate(pair.spec.primary_key))


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)


def _unpacked(pair: Pair) -> str:
    return ", ".join(f"{slot} AS {quoted(name)}" for name, slot in _slots(pair).items())


def _newest(pair: Pair) -> str:
    kept = [
        f"{quoted(name)} AS {slot.removeprefix('r.')}" for name, slot in _slots(pair).items() if slot.startswith("r.")
    ]
    order = "_row_id"
    if pair.spec.sequence_field:
        order = f"struct({quoted(pair.spec.sequence_field)} AS s, _row_id AS i)"
    change = f"struct({', '.join([*kept, f'{OP} AS op'])})"
    return f"SELECT {_keys(pair)}, max_by({change}, {order}) AS r FROM {_above(pair)} {_grouped(pair)}"


def _ctes(pair: Pair) -> str:
    ctes = f"newest AS ({_newest(pair)})"
    if pair.spec.sequence_field is None:
        return ctes
    sequence = quoted(pair.spec.sequence_field)
    keys = ", ".join(f"k{i}" for i in range(len(pair.spec.primary_key)))
    return (
        f"{ctes},\n"
        # Grouped, because rows that Hive wrote may share a key: a change must not take effect once for each.
        f"held AS (SELECT {_keys(pair, 'b.')}, max(b.{sequence}) AS s FROM {pair.base} AS b"
        f" LEFT SEMI JOIN newest AS n ON {_same_key(pair, 'b', 'n')} {_grouped(pair, 'b.')}),\n"
        f"deleted AS (SELECT {_keys(pair)}, max({sequence}) AS s FROM {pair.change}"
        f" WHERE _last_updated_sequence_number <= {pair.watermark} AND {OP} = 'D' {_grouped(pair)}),\n"
        f"effective AS (SELECT n.* FROM newest AS n"
        f" LEFT JOIN (SELECT {keys}, s, true AS here FROM held) AS h ON {_joined(pair, 'h')}"
        f" LEFT JOIN deleted AS d ON {_joined(pair, 'd')}"
        f" WHERE {_takes_effect(pair, pair.spec.sequence_field)})"
    )


def _joined(pair: Pair, other: str) -> str:
    return " AND ".join(f"n.k{i} = {other}.k{i}" for i in range(len(pair.spec.primary_key)))


def _takes_effect(pair: Pair, sequence_field: str) -> str:
    """A base row is the only opponent where there is one, else the newest merged delete; both lose ties, null loses."""
    mine = f"n.{_slots(pair)[sequence_field]}"
    return f"CASE WHEN h.here THEN h.s IS NULL OR {mine} >= h.s ELSE d.s IS NULL OR {mine} >= d.s END"


def _effective(pair: Pair) -> str:
    return "effective" if pair.spec.sequence_field else "newest"


def _replaced(pair: Pair) -> str:
    """The pending keys; cheaper than `newest`, and small enough to be sent to every reader of base."""
    if pair.spec.sequence_field is None:
        return f"SELECT DISTINCT {_keys(pair)} FROM {_above(pair)}"
    return f"SELECT {_keys(pair)}, max({quoted(pair.spec.sequence_field)}) AS s FROM {_above(pair)} {_grouped(pair)}"


def _replaces(pair: Pair) -> str:
    """Whether a base row `b` gives way to the pending key `n`. A key's newest change has its highest sequence value."""
    same = _same_key(pair, "b", "n")
    if pair.spec.sequence_field is None:
        return same
    held = f"b.{quoted(pair.spec.sequence_field)}"
    return f"{same} AND ({held} IS NULL OR n.s >= {held})"
