"""Folds pending changes that set some columns only: one row for each key (docs/protocols.md, rule 1.7).

The row of a key has, in each column, the newest value that a pending change set; in the columns that none set, base's
value. A delete sets all columns to null, so what came before it does not count. The columns of a sequence group have
the values of the change with the greatest sequence value (rule 1.10).
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

    def number_keys(self) -> np.ndarray:
        """The number of each change's key."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts)


def fold_changes(
    pending: pa.Table,
    base: BaseRows,
    primary_key: Sequence[str],
    rules: Mapping[str, ColumnRule],
    groups: Mapping[str, str],
) -> FoldedRows:
    """Fold the pending changes, which have all columns of base, over base's rows.

    If rows of base share a key, each gets the new values, unless a change set all columns: then one row replaces them.
    A column with a rule, or in a group, needs base's value even then. `groups` name the sequence field of each column
    in a group. ValueError if a sum is out of its column's range.
    """
    codes = number_keys([pending, base.keys], primary_key)
    changes, keys = _sort_changes(pending, codes[: len(pending)])
    key_of_base = np.searchsorted(keys, codes[len(pending) :])
    is_reset = np.logical_or.reduceat(changes.is_deleted if rules or groups else changes.is_whole, changes.starts)
    patched = np.flatnonzero(~is_reset[key_of_base])
    alone = np.setdiff1d(np.arange(len(keys)), key_of_base[patched])
    alone = alone[~changes.is_deleted[changes.ends[alone] - 1]]
    of_key = np.concatenate([key_of_base[patched], alone])
    of_base = np.concatenate([patched, np.full(len(alone), _NONE)])
    sources = _find_group_sources(base, changes, groups, of_key=of_key, of_base=of_base)
    rows = _make_rows(base, changes, primary_key, sources, of_key=of_key, of_base=of_base)
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
    base: BaseRows,
    changes: _Changes,
    primary_key: Sequence[str],
    sources: Mapping[str, np.ndarray],
    *,
    of_key: np.ndarray,
    of_base: np.ndarray,
) -> pa.Table:
    """One row for each pair of a key and a row of base; the place of the latter is -1 where there is none.

    `sources` are the places of the values of the columns in groups.
    """
    source = {}
    for field in base.fields:
        if field.name in primary_key:
            source[field.name] = changes.ends[of_key] - 1
        elif field.name in sources:
            source[field.name] = sources[field.name]
        else:
            source[field.name] = _find_source(changes, field.field_id)[of_key]
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
    key_of_change = changes.number_keys()
    field_id = next(field.field_id for field in base.fields if field.name == name)
    counting = np.flatnonzero(_find_setting(changes, field_id) & _is_after_delete(changes))
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


def _is_after_delete(changes: _Changes) -> np.ndarray:
    """Whether each change comes after the last delete of its key."""
    places = np.arange(len(changes.rows))
    last_delete = np.maximum.reduceat(np.where(changes.is_deleted, places, _NONE), changes.starts)
    is_after: np.ndarray = places > last_delete[changes.number_keys()]
    return is_after


def _find_group_sources(
    base: BaseRows, changes: _Changes, groups: Mapping[str, str], *, of_key: np.ndarray, of_base: np.ndarray
) -> dict[str, np.ndarray]:
    """For each column in a group, and each row, the place of the change whose value it has; -1 for base's value, or
    for none.
    """
    ids = {field.name: field.field_id for field in base.fields}
    by_sequence = {}
    for sequence in {*groups.values()}:
        members = [ids[name] for name, own in groups.items() if own == sequence]
        winners = _find_greatest(changes, sequence, members)[of_key]
        by_sequence[sequence] = _drop_losers(base, changes, sequence, winners, of_base)
    return {name: by_sequence[sequence] for name, sequence in groups.items()}


def _find_greatest(changes: _Changes, sequence: str, members: Sequence[int]) -> np.ndarray:
    """For each key, the place of the change with the greatest sequence value of those that set the group; of equal
    values, the last one. Null is the least value. -1 if no change sets it after the last delete.
    """
    sets = _is_after_delete(changes)
    for field_id in members:
        sets &= _find_setting(changes, field_id)
    values = changes.rows[sequence].combine_chunks()
    ranks = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
    ranks[pc.is_null(values).to_numpy(zero_copy_only=False)] = 0
    count = len(changes.rows)
    best = np.maximum.reduceat(np.where(sets, ranks * count + np.arange(count), _NONE), changes.starts)
    greatest: np.ndarray = np.where(best == _NONE, _NONE, best % count)
    return greatest


def _drop_losers(
    base: BaseRows, changes: _Changes, sequence: str, winners: np.ndarray, of_base: np.ndarray
) -> np.ndarray:
    """The places `winners` of the changes that set a group in each row, without those that lose to the row of base."""
    matched = np.flatnonzero((winners != _NONE) & (of_base != _NONE))
    column = changes.rows[sequence].combine_chunks()
    held = base.read([sequence])[sequence].cast(column.type).combine_chunks().take(pa.array(of_base[matched]))
    new = column.take(pa.array(winners[matched]))
    is_greater = pc.fill_null(pc.greater(held, new), fill_value=False)
    loses = pc.or_(is_greater, pc.and_(pc.is_valid(held), pc.is_null(new))).to_numpy(zero_copy_only=False)
    places = winners.copy()
    places[matched[loses]] = _NONE
    return places


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
