"""One scan: load the table, read the files that matter, filter, project.

The server shows a keyed table as its image, an ordinary Iceberg table with the merged rows (docs/protocols.md#images).

client.scan("lake.db.orders", filter="day = '2026-11-21'", columns=["id", "amount"]).to_arrow()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table

from firn.errors import Invalid, Refused, Unavailable
from firn.hdfs.registration import register_file_io
from firn.image_lag import IMAGE_LAG, warn_about_lag
from firn.protocol.names import join_name
from firn.scan import filters
from firn.scan.avro import READ_BY_SPARK, read_avro_rows
from firn.scan.projection import correct_projection
from firn.transport import TRIES

_MAX_TRIES = 3

# It warns for each file that nanoseconds of Hive's timestamps become microseconds, which the table's type demands.
_PYICEBERG = logging.getLogger("pyiceberg.io.pyarrow")
if _PYICEBERG.level == logging.NOTSET:
    _PYICEBERG.setLevel(logging.ERROR)
correct_projection()
register_file_io()


class Source(Protocol):
    """The source of a scan's table."""

    def load(self) -> Table:
        """Load the table as it is now: a keyed table as its image. Raises FirnError when it cannot be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan of a table. Each call of `to_arrow` reads the table as it is then.

    `filter` has the meaning of SQL's WHERE, except that comparisons with NaN are never true, as in Arrow.
    """

    source: Source
    filter: str | None = None
    columns: tuple[str, ...] | None = None
    before: Callable[[], None] = lambda: None
    """Called before each reading."""

    def to_arrow(self) -> pa.Table:
        """Read the rows, in no particular order.

        Raises Invalid for a filter or columns that do not fit, NotFound without a table, Refused for an Avro file that
        cannot be decoded and for equality deletes, and Unavailable if a file is lost, or if the server cannot merge a
        keyed table for readers.
        """
        self.before()
        for _ in range(_MAX_TRIES - 1):
            with suppress(FileNotFoundError):  # Hive-side writers remove files before a sync
                return self._read_once()
        try:
            return self._read_once()
        except FileNotFoundError as error:
            raise Unavailable(
                f"a file of the table is lost: {error}",
                hint="if Hive has overwritten the table, run `firn hive sync TABLE` and read again",
            ) from error

    def _read_once(self) -> pa.Table:
        table = self._load()
        schema = table.schema()
        return read_rows(table, list_columns(self, schema), filters.parse_filter(self.filter, schema))

    def _load(self) -> Table:
        """Load the table; each try gives the server `firn.read.max-wait` once more to merge the newest commits."""
        table = self.source.load()
        for _ in range(TRIES - 1):
            if IMAGE_LAG not in table.properties:
                return table
            table = self.source.load()
        if IMAGE_LAG in table.properties:
            warn_about_lag(join_name(table.name()), table.properties[IMAGE_LAG])
        return table


def read_rows(table: Table, columns: Sequence[str], where: BooleanExpression) -> pa.Table:
    """Read rows of an Iceberg table in the types of its current schema, without deleted rows.

    PyIceberg applies a filter to a file's partition values only if the scan selects the column; otherwise it finds no
    row.
    """
    selected = _ordered(table.schema(), {*columns, *filters.list_filter_columns(where, table.schema())})
    scan = table.scan(row_filter=where, selected_fields=tuple(selected))
    tasks = _planned(table, scan)
    fields = (table.schema().find_field(column) for column in columns)
    types = schema_to_pyarrow(Schema(*fields), include_field_ids=False)
    target = pa.schema([pa.field(field.name, field.type) for field in types])
    others = [task for task in tasks if task.file.file_format is not FileFormat.AVRO]
    rows = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter).to_table(others)
    read = [rows.select(list(columns)).cast(target)]
    if avro := [task for task in tasks if task.file.file_format is FileFormat.AVRO]:
        schema = table.schema()
        needed = _ordered(schema, {*columns, *filters.list_filter_columns(where, schema)})
        needed_schema = Schema(*(schema.find_field(column) for column in needed))
        batches = (filters.apply_filter(batch, where, schema) for batch in read_avro_rows(table, avro, needed_schema))
        read += [batch.select(list(columns)).cast(target) for batch in batches]
    return pa.concat_tables(read)


def _planned(table: Table, scan: DataScan) -> list[FileScanTask]:
    try:
        return list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        if "equality deletes" not in str(error):
            raise
        raise Refused(
            f"{join_name(table.name())} has equality deletes, which Python does not read",
            hint=READ_BY_SPARK,
        ) from error


def list_columns(scan: Scan, schema: Schema) -> list[str]:
    names = [field.name for field in schema.fields]
    selected = names if scan.columns is None else list(scan.columns)
    missing = [column for column in selected if column not in names]
    if missing or len(set(selected)) != len(selected):
        names_missing = f"the table has no column {', '.join(map(repr, missing))}"
        raise Invalid(
            names_missing if missing else "the scan selects a column twice",
            hint=f"the columns are {', '.join(names)}; names are case-sensitive",
        )
    return selected


def _ordered(schema: Schema, columns: set[str]) -> list[str]:
    return [field.name for field in schema.fields if field.name in columns]
