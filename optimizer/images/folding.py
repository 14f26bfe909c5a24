"""Folds pending changes over the rows of base that `find_keys` found; `firn.scan.folding` has the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyroaring import BitMap64

from firn.protocol.partial import SET_ID, ColumnRule
from firn.scan.folding import BaseRows, fold_changes
from firn.scan.reading import ColumnReader, map_files
from optimizer.images.changes import FILE
from optimizer.images.positions import Hits

PART_ROWS = 50_000
"""Of a file of base that is read in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """The rows that an image shows for pending keys, in base's schema, and the change file that each is like: the one
    with the newest change of the row's key, which lies in the row's partition.
    """

    rows: pa.Table
    like: np.ndarray


def is_partial(change: Table) -> bool:
    """Whether changes of this store may set some columns only."""
    return any(field.field_id == SET_ID for field in change.schema().fields)


def fold_over_base(
    base: Table,
    pending: pa.Table,
    hits: Sequence[Hits],
    deleted: Mapping[str, BitMap64],
    primary_key: Sequence[str],
    rules: Mapping[str, ColumnRule],
    groups: Mapping[str, str],
) -> PackedRows:
    """Fold the pending changes over the rows of base that `hits` found.

    Rows that base has `deleted` do not count. `groups` name the sequence field of each column in a group. ValueError if
    a sum is out of its column's range.
    """
    held = [live for hit in hits if len((live := _drop_deleted(hit, deleted)).positions)]
    none = pending.select(list(primary_key)).slice(0, 0)
    rows = BaseRows(
        fields=base.schema().fields,
        keys=pa.concat_tables([none, *(hit.rows.select(list(primary_key)) for hit in held)]),
        read=lambda names: _read_base(base, held, names),
    )
    folded = fold_changes(pending, rows, primary_key, rules, groups)
    return PackedRows(rows=folded.rows, like=pending[FILE].to_numpy()[folded.newest])


def _drop_deleted(hit: Hits, deleted: Mapping[str, BitMap64]) -> Hits:
    gone = deleted.get(hit.file.file_path)
    if not gone:
        return hit
    mask = pa.array([position not in gone for position in hit.positions.to_pylist()], pa.bool_())
    return Hits(file=hit.file, rows=hit.rows.filter(mask), positions=hit.positions.filter(mask))


def _read_base(base: Table, held: Sequence[Hits], names: Sequence[str]) -> pa.Table:
    """These columns of the rows of base, in the order of `held`."""
    reader = ColumnReader(base, Schema(*(field for field in base.schema().fields if field.name in names)))
    tables = map_files(lambda hit: pa.concat_tables(_pick(reader, hit.file, hit.positions.to_numpy())), held)
    return pa.concat_tables([reader.target.empty_table(), *(tables if names else ())])


def _pick(reader: ColumnReader, file: DataFile, positions: np.ndarray) -> Iterator[pa.Table]:
    """The rows of a file at these positions, which ascend; of a large file one part at a time is in memory."""
    start = 0
    for part in reader.read_parts(file, PART_ROWS):
        first, last = np.searchsorted(positions, [start, start + len(part)])
        yield part.combine_chunks().take(pa.array(positions[first:last] - start))
        start += len(part)
