"""Columns of one data file, all of its rows in the order of the file: a row's place is its position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from firn.scan.projection import correct_projection

THREADS = 4
"""Files read at a time: reading waits for storage and decompresses outside of Python's lock."""
_FIELD_ID = b"PARQUET:field_id"
_SMALLER = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_T = TypeVar("_T")
_R = TypeVar("_R")

correct_projection()


def read_columns(table: Table, file: DataFile, columns: Schema) -> pa.Table:
    """The columns of a file, under the table's types; no delete file applies.

    A Parquet file that names the fields by id and has their types is read as it stands. PyIceberg's projection reads
    all others: it knows name mappings, promoted types, partition values, Avro and ORC.
    """
    target = arrow_schema(columns)
    if file.file_format is FileFormat.PARQUET and (rows := _read_parquet(table.io, file, columns, target)) is not None:
        return rows
    rows = ArrowScan(table.metadata, table.io, columns, AlwaysTrue()).to_table([FileScanTask(file)])
    return pa.table([rows[field.name].cast(field.type) for field in target], schema=target)


def arrow_schema(columns: Schema) -> pa.Schema:
    """The columns' Arrow types, without those whose offsets take 64 bits: no file's column needs them."""
    fields = schema_to_pyarrow(columns, include_field_ids=False)
    return pa.schema([pa.field(field.name, _SMALLER.get(field.type, field.type)) for field in fields])


def _read_parquet(io: FileIO, file: DataFile, columns: Schema, target: pa.Schema) -> pa.Table | None:
    """The columns as the file has them; None where one is missing or has another type."""
    with io.new_input(file.file_path).open() as stream:
        reader = pq.ParquetFile(stream)
        by_id = {int(f.metadata[_FIELD_ID]): f for f in reader.schema_arrow if _FIELD_ID in (f.metadata or {})}
        found = [by_id.get(field.field_id) for field in columns.fields]
        if any(there is None or there.type != field.type for there, field in zip(found, target, strict=True)):
            return None
        names = [there.name for there in found if there is not None]
        rows = reader.read(columns=names, use_threads=False)
        return pa.table([rows[name] for name in names], schema=target)


def map_files(read: Callable[[_T], _R], files: Sequence[_T]) -> list[_R]:
    """What `read` makes of each file, in order, a few files at a time."""
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(read, files))


def batch_by_rows(files: Iterable[_T], count: Callable[[_T], int], rows: int) -> Iterator[list[_T]]:
    """The files in batches of about so many rows; a larger file is a batch of its own."""
    batch, size = list[_T](), 0
    for file in files:
        if batch and size + count(file) > rows:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += count(file)
    if batch:
        yield batch
