"""Writes packs: one data file per partition with the newest rows of the pending keys, in base's schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from firn.protocol.tasks.image import Pack
from optimizer.images.changes import FILE, POSITION, Changes
from optimizer.images.lineage import LineageFile
from optimizer.images.reading import ColumnReader, map_files

ROW_GROUP_BYTES = 16 * 2**20
"""Of a pack, before compression."""
Picked = tuple[int, np.ndarray]
"""The number of a change file, and the positions of its rows that the image shows."""
ReadRows = Callable[[int], pa.Table]
"""Reads all rows of a change file in base's schema."""


def write_packs(
    change: Table, schema: Schema, changes: Changes, shown: pa.Table, *, directory: str, name: str
) -> list[Pack]:
    """Write the shown rows of the change files. A partition is that of its change files; `schema` is base's.

    For each partition that is being written, one file and the rows of one row group are in memory, if
    the changes' rows are not all there already.
    """
    files = changes.files
    groups = list(_group_by_partition(files, shown))
    reader = ColumnReader(change, schema)

    def read(number: int) -> pa.Table:
        return changes.rows[number] if changes.rows else reader.read(files[number].file)

    target = schema_to_pyarrow(schema, include_field_ids=True)

    def write(numbered: tuple[int, list[Picked]]) -> Pack:
        number, picked = numbered
        location = f"{directory}/{name}-{number}.parquet"
        with change.io.new_output(location).create() as sink:
            rows = _write_pack(read, target, picked, sink)
        return Pack(location=location, rows=rows, like=files[picked[0][0]].file.file_path)

    return map_files(write, list(enumerate(groups)))


def _group_by_partition(files: Sequence[LineageFile], shown: pa.Table) -> Iterator[list[Picked]]:
    numbers, positions = shown[FILE].to_numpy(), shown[POSITION].to_numpy()
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    groups: dict[tuple[object, ...], list[Picked]] = defaultdict(list)
    for number in np.unique(numbers):
        first, last = np.searchsorted(numbers, [number, number + 1])
        file = files[number]
        partition = (file.file.spec_id, *(file.file.partition[i] for i in range(len(file.file.partition))))
        groups[partition].append((int(number), positions[first:last]))
    yield from groups.values()


def _write_pack(read: ReadRows, target: pa.Schema, picked: Sequence[Picked], sink: OutputStream) -> int:
    count = 0
    with pq.ParquetWriter(sink, target, compression="zstd", store_schema=False) as writer:
        for rows in _collect_rows(read, picked):
            writer.write_table(rows.cast(target))
            count += len(rows)
    return count


def _collect_rows(read: ReadRows, picked: Sequence[Picked]) -> Iterator[pa.Table]:
    """The picked rows, those of small files together: for few rows, a row group costs more than the rows."""
    tables, at, rows_before, size = list[pa.Table](), list[np.ndarray](), 0, 0
    for number, positions in picked:
        rows = read(number)
        tables.append(rows)
        at.append(positions + rows_before)
        rows_before += len(rows)
        size += rows.nbytes
        if size >= ROW_GROUP_BYTES:
            yield _take(tables, at)
            tables, at, rows_before, size = [], [], 0, 0
    if tables:
        yield _take(tables, at)


def _take(tables: Sequence[pa.Table], positions: Sequence[np.ndarray]) -> pa.Table:
    """The rows at these positions of all tables together."""
    rows, at = pa.concat_tables(tables), np.concatenate(positions)
    return rows if len(at) == len(rows) else rows.combine_chunks().take(pa.array(at))
