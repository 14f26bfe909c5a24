"""Writes packs: one data file per partition with the newest rows of the pending keys, in base's schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from firn.protocol.tasks.image import Pack
from optimizer.images.changes import FILE, POSITION
from optimizer.images.lineage import LineageFile
from optimizer.images.reading import ColumnReader, map_files

Picked = tuple[LineageFile, np.ndarray]
"""A change file, and the positions of its rows that the image shows."""


def write_packs(
    change: Table, schema: Schema, files: Sequence[LineageFile], shown: pa.Table, *, directory: str, name: str
) -> list[Pack]:
    """Write the shown rows of the change files. A partition is that of its change files; `schema` is base's.

    One file at a time is in memory for each partition that is being written.
    """
    groups = list(_group_by_partition(files, shown))
    reader = ColumnReader(change, schema)
    target = schema_to_pyarrow(schema, include_field_ids=True)

    def write(numbered: tuple[int, list[Picked]]) -> Pack:
        number, picked = numbered
        location = f"{directory}/{name}-{number}.parquet"
        rows = _write_pack(reader, target, picked, location)
        return Pack(location=location, rows=rows, like=picked[0][0].file.file_path)

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
        groups[partition].append((file, positions[first:last]))
    yield from groups.values()


def _write_pack(reader: ColumnReader, target: pa.Schema, picked: Sequence[Picked], location: str) -> int:
    count = 0
    with (
        reader.table.io.new_output(location).create() as sink,
        pq.ParquetWriter(sink, target, compression="zstd", store_schema=False) as writer,
    ):
        for file, positions in picked:
            rows = reader.read(file.file)
            if len(positions) < len(rows):
                rows = rows.take(pa.array(positions))
            writer.write_table(rows.cast(target))
            count += len(rows)
    return count
