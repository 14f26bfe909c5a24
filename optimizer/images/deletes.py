"""Writes the keys of rows that a statement deletes, as changes (docs/protocols.md, rule 5.8).

A statement names rows by their positions in an image's files. Files never change, so a row that the newest image still
shows is the very row that the statement read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, StaticTable
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType
from pyroaring import BitMap64

from firn.protocol.tasks.image import DeletedRows, DeletesTask, Pack
from firn.scan.newest import OP, subtract_keys
from firn.scan.reading import ColumnReader, map_files
from optimizer.images.hidden import read_hidden
from optimizer.images.keys import describe_data
from optimizer.images.pair import Check, check_metadata, make_directory

OP_FIELD = NestedField(field_id=10_000_001, name=OP, field_type=StringType(), required=True)
Tasks = Mapping[str, FileScanTask]


def write_deletes(task: DeletesTask, check: Check) -> DeletedRows:
    """Write the deletes, a file for each partition that has deleted rows. ValueError for positions that no file has."""
    image = StaticTable.from_metadata(task.image_metadata, task.file_io)
    check_metadata(image, check)
    check([*task.deletes, *task.replaced_deletes, *task.inserted])
    deleted = _read_new(image, task)
    shown = {scan.file.file_path: scan for scan in image.scan().plan_files()} if image.current_snapshot() else {}
    if missing := next((path for path in [*deleted, *task.removed_files] if path not in shown), None):
        return DeletedRows(stale=f"{missing} is not a file of the table any more")
    hit = {path: shown[path] for path in [*deleted, *task.removed_files]}
    deletes = {file for scan in hit.values() for file in scan.delete_files}
    check([*hit, *(file.file_path for file in deletes)])
    if unknown := {*task.replaced_deletes} - {file.file_path for file in deletes}:
        return DeletedRows(stale=f"{min(unknown)} is not a file of the table any more")
    hidden = read_hidden(image.io, deletes)
    if stale := next((path for path in deleted if deleted[path] & hidden.get(path, BitMap64())), None):
        return DeletedRows(stale=f"rows of {stale} have been changed")
    row_counts = {path: hit[path].file.record_count - len(hidden.get(path, BitMap64())) for path in task.removed_files}
    if (rows := sum(map(len, deleted.values())) + sum(row_counts.values())) > task.most_rows:
        return DeletedRows(too_many=rows)
    live = _list_live(deleted, task.removed_files, hit, hidden)
    make_directory(task.directory)
    return DeletedRows(files=_write(image, task, hit, live))


def _read_new(image: StaticTable, task: DeletesTask) -> dict[str, BitMap64]:
    """The positions that the statement deletes. An engine may write a delete file of the image anew, with its own."""
    sent = read_hidden(image.io, map(describe_positions, set(task.deletes)))
    replaced = read_hidden(image.io, map(describe_positions, set(task.replaced_deletes)))
    new = {path: positions - replaced.get(path, BitMap64()) for path, positions in sent.items()}
    return {path: positions for path, positions in new.items() if positions}


def _list_live(
    deleted: Mapping[str, BitMap64], removed: Iterable[str], hit: Tasks, hidden: Mapping[str, BitMap64]
) -> dict[str, BitMap64]:
    """The positions of the deleted rows; a removed file has lost all rows that the image shows."""
    live = dict(deleted)
    for path, positions in deleted.items():
        if positions.max() >= hit[path].file.record_count:
            raise ValueError(f"{path} has no row at position {positions.max()}")
    for path in removed:
        live[path] = BitMap64(range(hit[path].file.record_count)) - hidden.get(path, BitMap64())
    return {path: positions for path, positions in live.items() if positions}


def _write(image: StaticTable, task: DeletesTask, hit: Tasks, live: Mapping[str, BitMap64]) -> list[Pack]:
    columns = _list_columns(image, task.primary_key)
    reader, inserted = ColumnReader(image, Schema(*columns)), _read_inserted(image, task)
    target = schema_to_pyarrow(Schema(*columns, OP_FIELD), include_field_ids=True)

    def read(path: str) -> pa.Table:
        rows = reader.read(hit[path].file).take(pa.array(np.array(live[path].to_array(), np.int64)))
        return rows if inserted is None else subtract_keys(rows, inserted, task.replacing)

    written = []
    for number, paths in enumerate(_group_by_partition(hit, live)):
        location = f"{task.directory}/{task.name}-{number}.parquet"
        tables = (rows for path in paths if len(rows := read(path)))
        first = next(tables, None)
        if first is None:
            continue
        count = 0
        with (
            image.io.new_output(location).create() as sink,
            pq.ParquetWriter(sink, target, compression="zstd", store_schema=False) as writer,
        ):
            for rows in chain([first], tables):
                writer.write_table(mark_deleted(rows, target))
                count += len(rows)
        written.append(Pack(location=location, rows=count, like=paths[0]))
    return written


def _read_inserted(image: StaticTable, task: DeletesTask) -> pa.Table | None:
    """The columns `replacing` of the rows that the statement inserts; None if it inserts none."""
    if not task.inserted:
        return None
    reader = ColumnReader(image, Schema(*(image.schema().find_field(name) for name in task.replacing)))
    return pa.concat_tables(map_files(reader.read, [describe_data(path) for path in task.inserted]))


def mark_deleted(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """The rows as changes that delete them."""
    operations = pa.repeat(pa.scalar("D", pa.string()), len(rows))
    return rows.append_column(OP, operations).select(target.names).cast(target)


def _list_columns(image: StaticTable, primary_key: Sequence[str]) -> list[NestedField]:
    """The key, and the columns that partition the table: a delete lies in the partition of its row."""
    sources = {field.source_id for field in image.spec().fields}
    return [field for field in image.schema().fields if field.name in primary_key or field.field_id in sources]


def _group_by_partition(hit: Tasks, live: Iterable[str]) -> list[list[str]]:
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for path in live:
        file = hit[path].file
        groups[file.spec_id, *(file.partition[i] for i in range(len(file.partition)))].append(path)
    return list(groups.values())


def describe_positions(location: str) -> DataFile:
    """A delete file or a file of vectors, as `read_hidden` needs it."""
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PUFFIN if location.endswith(".puffin") else FileFormat.PARQUET,
        partition=Record(),
        record_count=0,
        file_size_in_bytes=0,
    )
