"""The first rows of files that no table of the catalog has, as a table of DuckDB.

The files are those of a Hive table before its upgrade. PyArrow reads them a batch at a time, and only the columns that
the statement needs, so a large file costs no more than a small one. The rows lie in memory before the statement runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io

from firn.errors import Refused
from firn.protocol.tasks.query import FirstRows, QueryTable, SampledFile
from optimizer.queries.tables import Check

FILE = "firn.file"
"""The column with the number of a row's file: no column of Hive has a dot in its name."""
BATCH_ROWS = 1_000
_PAGE_BYTES = 2**20
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, MemoryError)
"""What readers raise for damaged files, and for files that somebody has removed meanwhile."""


@dataclass(frozen=True)
class FirstRowsRelation:
    """The rows of the files that could be read."""

    view: str
    rows: pa.Table
    paths: tuple[str, ...] = ()
    """DuckDB opens no file."""

    @classmethod
    def read(cls, table: QueryTable, wanted: FirstRows, file_io: dict[str, str], check: Check) -> FirstRowsRelation:
        """Read the files, once the server has checked them. Refused if none can be read."""
        check(table.view, [file.location for file in wanted.files])
        columns, tables = table.columns or [], list[pa.Table]()
        for number, file in enumerate(wanted.files):
            try:
                rows = _read_file(file, columns, wanted, file_io)
            except _UNREADABLE:
                continue
            tables.append(rows.append_column(FILE, pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)))
        if not tables:
            raise Refused(f"no file of {table.name} can be read")
        try:
            return cls(table.view, pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException as error:
            raise Refused(f"files of {table.name} have columns of different types") from error

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the table."""
        connection.register(self.view, self.rows)


def _read_file(file: SampledFile, columns: Sequence[str], wanted: FirstRows, file_io: dict[str, str]) -> pa.Table:
    """The first rows of a file, with null in columns that it lacks, as Hive reads them."""
    with load_file_io(file_io, file.location).new_input(file.location).open() as opened:
        source = pa.PythonFile(opened, "r")
        reader = _ParquetReader(source) if file.format == "PARQUET" else _OrcReader(source)
        in_file = {name.lower(): name for name in reader.schema.names}
        names = [in_file[column] for column in columns if column in in_file]
        schema = pa.schema([reader.schema.field(name) for name in names]).remove_metadata()
        rows = pa.Table.from_batches(_take(reader.read(names), wanted), schema)
    return _arrange(rows, columns, file.constants)


class _ParquetReader:
    def __init__(self, source: pa.NativeFile) -> None:
        # With a buffer it reads pages, and not whole columns.
        self._file = pq.ParquetFile(source, buffer_size=_PAGE_BYTES)
        self.schema: pa.Schema = self._file.schema_arrow

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False)


class _OrcReader:
    def __init__(self, source: pa.NativeFile) -> None:
        self._fragment = ds.OrcFileFormat().make_fragment(source)
        self.schema: pa.Schema = self._fragment.physical_schema

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        scanner = self._fragment.scanner(
            columns=names, batch_size=BATCH_ROWS, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
        yield from scanner.to_batches()


def _take(batches: Iterator[pa.RecordBatch], wanted: FirstRows) -> Iterator[pa.RecordBatch]:
    """Batches until there are enough rows or bytes."""
    rows, size = 0, 0
    for batch in batches:
        kept = batch.slice(0, wanted.rows - rows)
        rows, size = rows + len(kept), size + kept.nbytes
        yield kept.replace_schema_metadata(None)
        if rows >= wanted.rows or size >= wanted.result_bytes:
            return


def _arrange(rows: pa.Table, columns: Sequence[str], constants: dict[str, str | None]) -> pa.Table:
    """The columns in their order: those of the file, the partition's values, and nulls."""
    read = {name.lower(): rows.column(name) for name in rows.column_names}
    arrays = []
    for column in columns:
        if column in constants:
            arrays.append(pa.repeat(pa.scalar(constants[column], pa.string()), rows.num_rows))
        else:
            arrays.append(read.get(column, pa.nulls(rows.num_rows)))
    return pa.table(arrays, names=list(columns))
