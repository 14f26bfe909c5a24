"""Columns of one data file, all of its rows in the order of the file: a row's place is its position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from firn.hdfs.registration import register_file_io
from firn.scan.avro import read_avro_rows
from firn.scan.projection import correct_projection

THREADS = 4
"""Files read at a time: reading waits for storage and decompresses outside of Python's lock."""
STREAM_BYTES = 2**20
"""Read at a time from each column of a file that is read in parts."""
_FIELD_ID = b"PARQUET:field_id"
_RESERVED = 2_147_483_447
"""From here on, field ids belong to metadata columns: a file without them leaves them to be derived."""
_SMALLER = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_T = TypeVar("_T")
_R = TypeVar("_R")

correct_projection()
register_file_io()


@dataclass(frozen=True)
class ColumnReader:
    """Reads the same columns of many files of a table, under the table's types; no delete file applies."""

    table: Table
    columns: Schema

    @cached_property
    def target(self) -> pa.Schema:
        """The columns' Arrow types, without those whose offsets take 64 bits: no file's column needs them."""
        fields = schema_to_pyarrow(self.columns, include_field_ids=False)
        return pa.schema([pa.field(field.name, _SMALLER.get(field.type, field.type)) for field in fields])

    @cached_property
    def numbered(self) -> pa.Schema:
        """The columns' Arrow types with the field ids inside of structs, lists and maps."""
        return schema_to_pyarrow(self.columns, include_field_ids=True)

    def read(self, file: DataFile) -> pa.Table:
        """All rows of a file, in their order.

        A Parquet file that names the fields by id and has their types is read as it stands. PyIceberg's projection
        reads all others: it knows name mappings, promoted types, partition values and ORC.
        """
        if file.file_format is FileFormat.PARQUET and (rows := self._read_parquet(file)) is not None:
            return rows
        if file.file_format is FileFormat.AVRO:  # which PyIceberg does not read
            batches = [self._cast(batch) for batch in read_avro_rows(self.table, [FileScanTask(file)], self.columns)]
            return pa.concat_tables([self.target.empty_table(), *batches])
        rows = ArrowScan(self.table.metadata, self.table.io, self.columns, AlwaysTrue()).to_table([FileScanTask(file)])
        return self._cast(rows)

    def _cast(self, rows: pa.Table) -> pa.Table:
        return pa.table([rows[field.name].cast(field.type) for field in self.target], schema=self.target)

    def read_parts(self, file: DataFile, rows: int) -> Iterator[pa.Table]:
        """All rows of a file in their order, about so many at a time, so that a large file is never in memory whole.

        A file that PyIceberg has to read is one part.
        """
        if file.file_format is FileFormat.PARQUET:
            with self.table.io.new_input(file.file_path).open() as stream:
                reader = pq.ParquetFile(stream, buffer_size=STREAM_BYTES)
                file_fields = self._find_fields(reader)
                if file_fields is not None:
                    names = [file_field.name for file_field in file_fields if file_field is not None]
                    for batch in reader.iter_batches(rows, columns=names, use_threads=False):
                        yield self._arrange(pa.table(batch), file_fields)
                    return
        yield self.read(file)

    def _read_parquet(self, file: DataFile) -> pa.Table | None:
        """The columns as the file has them; None where one is missing or has another type."""
        with self.table.io.new_input(file.file_path).open() as stream:
            reader = pq.ParquetFile(stream)
            file_fields = self._find_fields(reader)
            if file_fields is None:
                return None
            names = [file_field.name for file_field in file_fields if file_field is not None]
            return self._arrange(reader.read(columns=names, use_threads=False), file_fields)

    def _find_fields(self, reader: pq.ParquetFile) -> list[pa.Field | None] | None:
        """The file's fields of the columns; None if PyIceberg has to read the file."""
        by_id = {int(f.metadata[_FIELD_ID]): f for f in reader.schema_arrow if _FIELD_ID in (f.metadata or {})}
        file_fields = [by_id.get(field.field_id) for field in self.columns.fields]
        places = zip(self.columns.fields, file_fields, self.target, self.numbered, strict=True)
        for field, file_field, target, numbered in places:
            if field.field_id < _RESERVED and file_field is None:
                return None
            if file_field is None:
                continue
            # A field inside a struct may have been dropped, and another one of its name and type added.
            has_ids = pa.types.is_nested(target.type)
            if not file_field.type.equals(numbered.type if has_ids else target.type, check_metadata=has_ids):
                return None
        return file_fields

    def _arrange(self, rows: pa.Table, file_fields: Sequence[pa.Field | None]) -> pa.Table:
        arrays = [
            pa.nulls(len(rows), target.type) if file_field is None else rows[file_field.name]
            for file_field, target in zip(file_fields, self.target, strict=True)
        ]
        return pa.table(arrays, schema=self.target)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of some files, a table for each, or one part of a large file, whose first row has the position `start`."""

    numbers: Sequence[int]
    """The places of the files in the list that is read."""
    tables: Sequence[pa.Table]
    start: int = 0


def read_rows(reader: ColumnReader, files: Sequence[DataFile], batch_rows: int) -> Iterator[FileRows]:
    """All rows of the files, in order, about so many rows at a time."""
    for batch in batch_by_rows(range(len(files)), lambda number: files[number].record_count, batch_rows):
        if files[batch[0]].record_count <= batch_rows:
            yield FileRows(batch, map_files(lambda number: reader.read(files[number]), batch))
            continue
        start = 0
        for part in reader.read_parts(files[batch[0]], batch_rows):
            yield FileRows(batch, [part], start)
            start += len(part)


def number_rows(count: int) -> pa.Array:
    """The numbers 0, 1 … as int64."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def map_files(read: Callable[[_T], _R], files: Sequence[_T]) -> list[_R]:
    """Apply `read` to each file, a few files at a time; yield the results in order."""
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
