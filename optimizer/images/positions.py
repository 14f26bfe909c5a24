"""Finds the keys of pending changes in base: the positions of their rows, file by file.

It reads only the key columns of base, a bounded number of rows at a time. It hashes the pending keys once a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyroaring import BitMap64

from firn.scan.newest import select_keys
from firn.scan.reading import ColumnReader, FileRows, number_rows, read_rows
from optimizer.images.changes import BATCH_ROWS, KeyColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The rows of one file that hold pending keys: key columns, sequence field, and positions in the same order."""

    file: DataFile
    rows: pa.Table
    positions: pa.Array


def find_keys(
    base: Table, files: Sequence[DataFile], keys: pa.Table, columns: KeyColumns, *, batch_rows: int = BATCH_ROWS
) -> Iterator[Hits]:
    """The files of base that hold some of `keys`, with the rows that do. Rows that base has deleted are among them.

    A file of more than `batch_rows` rows may come several times.
    """
    reader = ColumnReader(base, Schema(*(base.schema().find_field(name) for name in columns.names)))
    search = KeySearch(keys, columns.primary_key)
    for read in read_rows(reader, files, batch_rows):
        yield from _hits_of(read, files, search)


def measure_key_bytes(base: Table, files: Iterable[DataFile], primary_key: Sequence[str]) -> int:
    """The bytes of base's key columns, as its files store them. A file that does not say them counts as a whole."""
    ids = [base.schema().find_field(key).field_id for key in primary_key]
    size = 0
    for file in files:
        sizes = file.column_sizes or {}
        key_sizes = [sizes[field_id] for field_id in ids if field_id in sizes]
        size += sum(key_sizes) if len(key_sizes) == len(ids) else file.file_size_in_bytes
    return size


def find_live(hits: Hits, deleted: Mapping[str, BitMap64]) -> pa.Table:
    """The rows of `hits` that base's own delete files leave."""
    gone = deleted.get(hits.file.file_path)
    if gone is None:
        return hits.rows
    mask = pa.array([position not in gone for position in hits.positions.to_pylist()], pa.bool_())
    return hits.rows.filter(mask)


class KeySearch:
    """Finds the rows whose key is one of these."""

    def __init__(self, keys: pa.Table, primary_key: Sequence[str]) -> None:
        self._names = tuple(primary_key)
        self._keys = select_keys(keys, primary_key)
        self._single = self._keys["k0"].combine_chunks() if len(primary_key) == 1 else None

    def find(self, rows: pa.Table) -> np.ndarray:
        """The row numbers, ascending."""
        mine = select_keys(rows, self._names)
        if self._single is not None:
            return np.flatnonzero(pc.is_in(mine["k0"], value_set=self._single).to_numpy())
        numbered = mine.append_column("i", number_rows(len(mine)))
        joined = numbered.join(self._keys, mine.column_names, join_type="left semi")
        return np.sort(joined["i"].to_numpy())


def _hits_of(read: FileRows, files: Sequence[DataFile], search: KeySearch) -> Iterator[Hits]:
    hits = search.find(pa.concat_tables(read.tables))
    ends = np.cumsum([len(table) for table in read.tables])
    cuts = np.searchsorted(hits, ends)
    first = 0
    for number, table, end, cut in zip(read.numbers, read.tables, ends, cuts, strict=True):
        places, first = hits[first:cut] - (end - len(table)), cut
        if len(places):
            positions = pa.array(places + read.start, pa.int64())
            yield Hits(file=files[number], rows=table.take(pa.array(places, pa.int64())), positions=positions)
