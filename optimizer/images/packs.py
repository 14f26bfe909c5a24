"""Writes packs: one data file per partition with the newest rows of the pending keys, in base's schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyroaring import BitMap64

from firn.protocol.tasks.image import Pack
from firn.scan.lineage import LineageFile
from firn.scan.reading import ColumnReader, map_files

ROW_GROUP_BYTES = 16 * 2**20
"""Of a pack, before compression."""
PART_ROWS = 50_000
"""Of a change file that is read in parts."""
_LARGE_BYTES = 2**20
Picked = tuple[int, np.ndarray]
"""The number of a change file, and the positions of its rows that the image shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSource:
    """The change files that packs take their rows from. `schema` is base's; `rows` are those of all files, if read."""

    change: Table
    schema: Schema
    files: Sequence[LineageFile]
    rows: Sequence[pa.Table] = ()

    def read(self, number: int) -> Iterator[pa.Table]:
        """All rows of a change file in base's schema, in parts."""
        if self.rows:
            yield self.rows[number]
        else:
            yield from ColumnReader(self.change, self.schema).read_parts(self.files[number].file, PART_ROWS)


def write_packs(source: PackSource, shown: Mapping[int, BitMap64], *, directory: str, name: str) -> list[Pack]:
    """Write the shown rows of the change files. A partition is that of its change files.

    For each partition that is being written, one part of a file and the rows of one row group are in memory, if the
    changes' rows are not all there already.
    """
    files = source.files
    target = schema_to_pyarrow(source.schema, include_field_ids=True)

    def write(numbered: tuple[int, list[Picked]]) -> Pack:
        number, picked = numbered
        location = f"{directory}/{name}-{number}.parquet"
        with source.change.io.new_output(location).create() as sink:
            rows = _write_pack(source, target, picked, sink)
        return Pack(location=location, rows=rows, like=files[picked[0][0]].file.file_path)

    return map_files(write, list(enumerate(_group_by_partition(files, shown))))


def write_folded(source: PackSource, rows: pa.Table, like: np.ndarray, *, directory: str, name: str) -> list[Pack]:
    """Write rows that are folded of changes. `like` has the number of a change file in the partition of each row."""
    numbers, groups = np.unique(like), defaultdict[tuple[object, ...], list[int]](list)
    for number in numbers:
        groups[_get_partition(source.files[number])].append(number)
    target, packs = schema_to_pyarrow(source.schema, include_field_ids=True), list[Pack]()
    for members in groups.values():
        location = f"{directory}/{name}-{len(packs)}.parquet"
        own = rows.take(pa.array(np.flatnonzero(np.isin(like, members)))).cast(target)
        per_group = max(ROW_GROUP_BYTES * len(own) // max(own.nbytes, 1), 1)
        with source.change.io.new_output(location).create() as sink:
            pq.write_table(own, sink, row_group_size=per_group, compression="zstd", store_schema=False)
        packs.append(Pack(location=location, rows=len(own), like=source.files[members[0]].file.file_path))
    return packs


def _get_partition(file: LineageFile) -> tuple[object, ...]:
    partition = file.file.partition
    return (file.file.spec_id, *(partition[place] for place in range(len(partition))))


def _group_by_partition(files: Sequence[LineageFile], shown: Mapping[int, BitMap64]) -> list[list[Picked]]:
    groups: dict[tuple[object, ...], list[Picked]] = defaultdict(list)
    for number in sorted(shown):
        groups[_get_partition(files[number])].append((number, np.array(shown[number].to_array(), np.int64)))
    return list(groups.values())


def _write_pack(source: PackSource, target: pa.Schema, picked: Sequence[Picked], sink: OutputStream) -> int:
    count = 0
    with pq.ParquetWriter(sink, target, compression="zstd", store_schema=False) as writer:
        for rows in collect_rows(source, picked):
            writer.write_table(rows.cast(target))
            count += len(rows)
    return count


def collect_rows(source: PackSource, picked: Sequence[Picked]) -> Iterator[pa.Table]:
    """The picked rows, those of small files together: for few rows, a row group costs more than the rows."""
    tables, at, rows_before, size = list[pa.Table](), list[np.ndarray](), 0, 0
    for rows, positions in _read_picked(source, picked):
        tables.append(rows)
        at.append(positions + rows_before)
        rows_before += len(rows)
        size += rows.nbytes
        if size >= ROW_GROUP_BYTES:
            yield _take(tables, at)
            tables, at, rows_before, size = [], [], 0, 0
    if tables:
        yield _take(tables, at)


def _read_picked(source: PackSource, picked: Sequence[Picked]) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Parts of files and the positions in them that are picked; of large parts only the picked rows."""
    for number, positions in picked:
        start = 0
        for rows in source.read(number):
            first, last = np.searchsorted(positions, [start, start + len(rows)])
            inside, start = positions[first:last] - start, start + len(rows)
            if not len(inside):
                continue
            if rows.nbytes > _LARGE_BYTES:
                yield _take([rows], [inside]), np.arange(len(inside))
            else:
                yield rows, inside


def _take(tables: Sequence[pa.Table], positions: Sequence[np.ndarray]) -> pa.Table:
    """The rows at these positions of all tables together."""
    rows, at = pa.concat_tables(tables), np.concatenate(positions)
    return rows if len(at) == len(rows) else rows.combine_chunks().take(pa.array(at))
