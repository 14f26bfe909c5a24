"""Which pending change of a key is the newest, and whether it takes effect: docs/protocols.md, rules 1.2 and 5.1.

Joins use only keys and row positions, under own names (`k0`, `s`, `i`), because Arrow's joins carry no nested columns
and the table's columns may have any name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.scan.lineage import ROW_ID
from firn.scan.reading import number_rows

OP = "_op"


def select_newest(changes: pa.Table, keys: Sequence[str], sequence: str | None) -> pa.Table:
    """Select the newest change of each key: by the sequence value if there is one, then by the row id."""
    order = {"r": changes[ROW_ID]}
    if sequence is not None:  # "h" puts missing values below all others
        order = {"h": pc.is_valid(changes[sequence]), "s": changes[sequence], **order}
    ordered = changes.take(pc.sort_indices(pa.table(order), sort_keys=[(name, "ascending") for name in order]))
    last = _positions(ordered, keys).group_by(_names(keys)).aggregate([("i", "max")])
    return ordered.take(last["i_max"])


def select_oldest_inserts(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Select the change of each key that inserts its row, on an insert-only table (docs/protocols.md, rule 1.9)."""
    inserts = changes.filter(pc.not_equal(changes[OP], "D"))
    ordered = inserts.take(pc.sort_indices(inserts[ROW_ID]))
    first = _positions(ordered, keys).group_by(_names(keys)).aggregate([("i", "min")])
    return ordered.take(first["i_min"])


def select_effective(
    newest_changes: pa.Table, keys: Sequence[str], sequence: str, *, base_rows: pa.Table, deleted: pa.Table
) -> pa.Table:
    """Select the newest changes that win against base and, for keys that base lacks, against merged deletes.

    `base_rows` and `deleted` have the keys and the sequence field of base rows, and of merged deletes that are still in
    the change store. Both lose ties, and a missing sequence value loses to any.
    """
    joined = _positions(newest_changes, keys).append_column("s", _storage(newest_changes[sequence]))
    for other, name in ((base_rows, "h"), (deleted, "d")):
        joined = joined.join(_highest(other, keys, sequence, name), _names(keys), join_type="left outer")
    wins = pc.if_else(
        pc.is_valid(joined["h_here"]),
        pc.or_kleene(pc.is_null(joined["h"]), pc.greater_equal(joined["s"], joined["h"])),
        pc.or_kleene(pc.is_null(joined["d"]), pc.greater_equal(joined["s"], joined["d"])),
    )
    return newest_changes.take(joined["i"].filter(pc.fill_null(wins, False)))


def _highest(table: pa.Table, keys: Sequence[str], sequence: str, name: str) -> pa.Table:
    """For each key, the highest sequence value as `name`, and `<name>_here`, null after a join without a match."""
    keyed = _positions(table, keys).drop_columns("i").append_column("s", _storage(table[sequence]))
    grouped = keyed.group_by(_names(keys)).aggregate([("s", "max")])
    columns = [grouped[key] for key in _names(keys)]
    here = pa.repeat(pa.scalar(True), len(grouped))
    return pa.table([*columns, grouped["s_max"], here], names=[*_names(keys), name, f"{name}_here"])


def select_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Select the key columns, as k0, k1 …"""
    return pa.table([_storage(table[key]) for key in keys], names=_names(keys))


def number_keys(tables: Sequence[pa.Table], keys: Sequence[str]) -> np.ndarray:
    """A number for each row of all tables, in order: rows have the same number if they have the same key."""
    codes = np.zeros(sum(map(len, tables)), np.int64)
    for key in keys:
        values = pa.concat_arrays([chunk for table in tables for chunk in _storage(table[key]).chunks])
        own = values.dictionary_encode().indices.to_numpy().astype(np.int64)
        codes = np.unique(codes * (own.max(initial=0) + 1) + own, return_inverse=True)[1]
    return codes


def subtract_keys(rows: pa.Table, others: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows whose keys none of the other rows has."""
    left = _positions(rows, keys).join(select_keys(others, keys), _names(keys), join_type="left anti")
    return rows.take(left["i"].combine_chunks())


def _positions(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The key columns as k0, k1 … and each row's position as i."""
    return select_keys(table, keys).append_column("i", number_rows(len(table)))


def _names(keys: Sequence[str]) -> list[str]:
    return [f"k{i}" for i in range(len(keys))]


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The storage values of an extension type such as uuid, because Arrow cannot group or join by the type itself."""
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column
