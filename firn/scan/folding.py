"""Folds pending changes that set some columns only: one row for each key (docs/protocols.md, rule 1.7).

The row of a key has, in each column, the newest value that a pending change set; in the columns that none set, base's
value. A delete sets all columns to null, so what came before it does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from firn.protocol.partial import SET, ColumnRule
from firn.scan.column_rules import combine_values
from firn.scan.lineage import ROW_ID
from firn.scan.newest import OP, number_keys

_NONE = -1
"""The place of a row that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRows:
    """The rows of base that have pending keys: their keys, and the columns that `read` reads of them when asked.

    `fields` are the table's columns.
    """

    fields: Sequence[NestedField]
    keys: pa.Table
    read: Callable[[Sequence[str]], pa.Table]
    """The named columns, with the rows in the order of `keys`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedRows:
    """The rows that readers see for pending keys, and for each the place of its key's newest change in `pending`."""

    rows: pa.Table
    newest: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """Pending changes sorted by key and row id, and the places at which the changes of each key start and end."""

    rows: pa.Table
    order: np.ndarray
    """The place of each change before it was sorted."""
    starts: np.ndarray
    ends: np.ndarray
    is_deleted: np.ndarray
    is_whole: np.ndarray
    """Whether a change sets all columns."""


def fold_changes(
    pending: pa.Table, base: BaseRows, primary_key: Sequence[str], rules: Mapping[str, ColumnRule]
) -> FoldedRows:
    """Fold the pending changes, which have all columns of base, over base's rows.

    If rows of base share a key, each gets the new values, unless a change set all columns: then one row replaces them.
    A column with a rule needs base's value even then. ValueError if a sum is out of its column's range.
    """
    codes = number_keys([pending, base.keys], primary_key)
    changes, keys = _sort_changes(pending, codes[: len(pending)])
    key_of_base = np.searchsorted(keys, codes[len(pending) :])
    is_reset = np.logical_or.reduceat(changes.is_deleted if rules else changes.is_whole, changes.starts)
    patched = np.flatnonzero(~is_reset[key_of_base])
    alone = np.setdiff1d(np.arange(len(keys)), key_of_base[patched])
    alone = alone[~changes.is_deleted[changes.ends[alone] - 1]]
    of_key = np.concatenate([key_of_base[patched], alone])
    of_base = np.concatenate([patched, np.full(len(alone), _NONE)])
    rows = _make_rows(base, changes, primary_key, of_key=of_key, of_base=of_base)
    for name, rule in rules.items():
        values = _combine_column(base, changes, name, rule, of_key=of_key, of_base=of_base)
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return FoldedRows(rows=rows, newest=changes.order[changes.ends[of_key] - 1])


def _sort_changes(pending: pa.Table, codes: np.ndarray) -> tuple[_Changes, np.ndarray]:
    """The sorted changes, and the number of each key, ascending."""
    order = np.lexsort((pending[ROW_ID].to_numpy(), codes))
    rows = pending.combine_chunks().take(pa.array(order))
    keys, starts = np.unique(codes[order], return_index=True)
    is_deleted = pc.equal(rows[OP], "D").to_numpy()
    return (
        _Changes(
            rows=rows,
            order=order,
            starts=starts,
            ends=np.append(starts[1:], len(rows)),
            is_deleted=is_deleted,
            is_whole=is_deleted | pc.is_null(rows[SET]).to_numpy(),
        ),
        keys,
    )


def _make_rows(
    base: BaseRows, changes: _Changes, primary_key: Sequence[str], *, of_key: np.ndarray, of_base: np.ndarray
) -> pa.Table:
    """One row for each pair of a key and a row of base; the place of the latter is -1 where there is none."""
    newest = changes.ends[of_key] - 1
    source = {
        field.name: newest if field.name in primary_key else _find_source(changes, field.field_id)[of_key]
        for field in base.fields
    }
    is_patched = of_base != _NONE
    left = [name for name, places in source.items() if np.any(is_patched & (places == _NONE))]
    old = base.read(left)
    columns = []
    for name, places in source.items():
        from_base = is_patched & (places == _NONE)
        is_null = ~from_base & ((places == _NONE) | (changes.is_deleted[places] & (name not in primary_key)))
        chunks = [*changes.rows[name].chunks, *(old[name].cast(changes.rows[name].type).chunks if name in left else ())]
        at = np.where(from_base, len(changes.rows) + of_base, places)
        values = pa.chunked_array(chunks, type=changes.rows[name].type).combine_chunks()
        columns.append(values.take(pa.array(at, mask=is_null)))
    return pa.table(columns, names=list(source))


def _combine_column(
    base: BaseRows,
    changes: _Changes,
    name: str,
    rule: ColumnRule,
    *,
    of_key: np.ndarray,
    of_base: np.ndarray,
) -> pa.ChunkedArray:
    """The values of a column with a rule: base's, and then those that the changes after the last delete set."""
    places = np.arange(len(changes.rows))
    last_delete = np.maximum.reduceat(np.where(changes.is_deleted, places, _NONE), changes.starts)
    key_of_change = np.repeat(np.arange(len(changes.starts)), changes.ends - changes.starts)
    field_id = next(field.field_id for field in base.fields if field.name == name)
    counting = np.flatnonzero(_find_setting(changes, field_id) & (places > last_delete[key_of_change]))
    # A key has several rows if rows of base share it: each of them gets all changes.
    order = np.argsort(of_key, kind="stable")
    first, end = (np.searchsorted(of_key[order], key_of_change[counting], side=side) for side in ("left", "right"))
    counts = end - first
    starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
    rows_of_changes = order[starts + np.arange(counts.sum())]
    patched = np.flatnonzero(of_base != _NONE)
    column = changes.rows[name].combine_chunks()
    old = pa.chunked_array(base.read([name])[name].chunks, type=column.type).combine_chunks()
    values = [old.take(pa.array(of_base[patched])), column.take(pa.array(np.repeat(counting, counts)))]
    return combine_values(pa.concat_arrays(values), np.concatenate([patched, rows_of_changes]), len(of_key), rule)


def _find_setting(changes: _Changes, field_id: int) -> np.ndarray:
    """Whether each change sets the column."""
    texts = pc.dictionary_encode(changes.rows[SET].combine_chunks(), null_encoding="encode")
    names_it = np.array(
        [text is not None and str(field_id) in text.split(",") for text in texts.dictionary.to_pylist()], bool
    )
    sets: np.ndarray = changes.is_whole | names_it[texts.indices.to_numpy()]
    return sets


def _find_source(changes: _Changes, field_id: int) -> np.ndarray:
    """For each key, the place of the newest change that sets the column; -1 if none does."""
    places = np.where(_find_setting(changes, field_id), np.arange(len(changes.rows)), _NONE)
    return np.maximum.reduceat(places, changes.starts)
