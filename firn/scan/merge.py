"""Which changes take effect, and the rows that follow: docs/protocols.md, rule 1.2, over Arrow tables.

Joins work on keys and row positions alone, under names made up here (`k0`, `s`, `i`), because Arrow's joins carry no
nested columns and the table's own columns may have any name.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from firn.scan.lineage import ROW_ID, counted

OP = "_op"


def newest(changes: pa.Table, keys: Sequence[str], sequence: str | None) -> pa.Table:
    """The newest change of each key: the one with the highest row id, or first of all the highest sequence value."""
    order = {"r": changes[ROW_ID]}
    if sequence is not None:  # "h" puts missing values below all others
        order = {"h": pc.is_valid(changes[sequence]), "s": changes[sequence], **order}
    ordered = changes.take(pc.sort_indices(pa.table(order), sort_keys=[(name, "ascending") for name in order]))
    last = _positions(ordered, keys).group_by(_names(keys)).aggregate([("i", "max")])
    return ordered.take(last["i_max"])


def taking_effect(
    newest_changes: pa.Table, keys: Sequence[str], sequence: str, *, held: pa.Table, deleted: pa.Table
) -> pa.Table:
    """Those of the newest changes that win against base and, for keys that base has not, against merged deletes.

    `held` and `deleted` have the keys and the sequence field, of base rows and of merged deletes still in the change
    store.  Both lose ties, and a missing sequence value loses to any.
    """
    mine = _positions(newest_changes, keys).append_column("s", _storage(newest_changes[sequence]))
    joined = mine
    for other, name in ((held, "h"), (deleted, "d")):
        joined = joined.join(_highest(other, keys, sequence, name), _names(keys), join_type="left outer")
    wins = pc.if_else(
        pc.is_valid(joined["h_here"]),
        pc.or_kleene(pc.is_null(joined["h"]), pc.greater_equal(joined["s"], joined["h"])),
        pc.or_kleene(pc.is_null(joined["d"]), pc.greater_equal(joined["s"], joined["d"])),
    )
    return newest_changes.take(joined["i"].filter(pc.fill_null(wins, False)))


def applied(base: pa.Table, effective: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Base with the changes that take effect: their keys' rows leave it, what they upsert comes in."""
    leaving = _positions(effective, keys).select(_names(keys))
    staying = _positions(base, keys).join(leaving, _names(keys), join_type="left anti")["i"]
    coming = effective.filter(pc.not_equal(effective[OP], "D")).select(base.column_names)
    return pa.concat_tables([base.take(staying.take(pc.sort_indices(staying))), coming.cast(base.schema)])


def _highest(table: pa.Table, keys: Sequence[str], sequence: str, name: str) -> pa.Table:
    """Per key the highest sequence value as `name`, and `<name>_here`, which joins fill with null for missing keys."""
    keyed = _positions(table, keys).drop_columns("i").append_column("s", _storage(table[sequence]))
    grouped = keyed.group_by(_names(keys)).aggregate([("s", "max")])
    columns = [grouped[key] for key in _names(keys)]
    here = pa.repeat(pa.scalar(True), len(grouped))
    return pa.table([*columns, grouped["s_max"], here], names=[*_names(keys), name, f"{name}_here"])


def key_columns(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The key columns as k0, k1 …"""
    return pa.table([_storage(table[key]) for key in keys], names=_names(keys))


def _positions(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The key columns as k0, k1 … and each row's position as i."""
    return key_columns(table, keys).append_column("i", counted(len(table)))


def _names(keys: Sequence[str]) -> list[str]:
    return [f"k{i}" for i in range(len(keys))]


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """What an extension type such as uuid is made of: Arrow groups and joins by nothing else."""
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column
