"""One scan: pin both stores, read the files that matter, merge, filter, project.

client.scan("lake.db.orders", filter="day = '2026-11-21'", columns=["id", "amount"]).to_arrow()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table

from firn.errors import Invalid, NotFound, Refused, Unavailable
from firn.protocol.names import join_name
from firn.scan import filters
from firn.scan.avro import READ_BY_SPARK, read_avro_rows
from firn.scan.lineage import SEQUENCE, LineageFile, list_lineage_files, read_rows
from firn.scan.merge import OP, apply_changes, select_effective, select_newest
from firn.scan.projection import correct_projection

_MAX_TRIES = 3

# It warns for each file that nanoseconds of Hive's timestamps become microseconds, which the table's type demands.
_PYICEBERG = logging.getLogger("pyiceberg.io.pyarrow")
if _PYICEBERG.level == logging.NOTSET:
    _PYICEBERG.setLevel(logging.ERROR)
correct_projection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One store at one moment: the name under which the Iceberg catalog serves it."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Both stores of a keyed table at one moment, and the facts for their merge."""

    primary_key: tuple[str, ...]
    sequence_field: str | None
    watermark: int
    pending: bool
    base: Pinned
    change: Pinned


class Source(Protocol):
    """The source of a scan's table."""

    def pin(self) -> Pin | None:
        """Pin both stores as they are now; None for a plain table. Raises NotFound without a table."""

    def load(self, name: Sequence[str] | None = None) -> Table:
        """Load an Iceberg table of the catalog, by default the scanned one. Raises NoSuchTableError without one."""


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
        cannot be decoded and for equality deletes, and Unavailable if a file is lost.
        """
        self.before()
        try:
            for _ in range(_MAX_TRIES - 1):
                # A pin ends when its snapshots expire with their files. Hive-side writers remove files before a sync.
                with suppress(NoSuchTableError, FileNotFoundError):
                    return self._read_once()
            return self._read_once()
        except FileNotFoundError as error:
            raise Unavailable(
                f"a file of the table is lost: {error}",
                hint="if Hive has overwritten the table, run `firn hive sync TABLE` and read again",
            ) from error
        except NoSuchTableError as error:
            raise NotFound(f"the table cannot be read: {error}", hint="`firn table list` lists all tables") from error

    def _read_once(self) -> pa.Table:
        pin = self.source.pin()
        return _plain(self) if pin is None else _keyed(self, pin)


def _plain(scan: Scan) -> pa.Table:
    table = scan.source.load()
    schema = table.schema()
    columns = _columns(scan, schema)
    where = filters.parse_filter(scan.filter, schema)
    return _read(table, columns, where)


def _keyed(scan: Scan, pin: Pin) -> pa.Table:
    base = scan.source.load(pin.base.table)
    schema = base.schema()
    columns = _columns(scan, schema)
    where = filters.parse_filter(scan.filter, schema)
    if not pin.pending:
        return _read(base, columns, where)
    change = scan.source.load(pin.change.table)
    needed = _ordered(schema, {*columns, *pin.primary_key, *filters.list_filter_columns(where, schema)})
    on_keys = filters.restrict_to_columns(where, schema, pin.primary_key)
    files = list_lineage_files(change)
    effective = _effective(pin, base, change, files, needed=needed, on_keys=on_keys)
    # The whole filter may go to base: a row of base stays as it is or is replaced, whatever the filter says.
    rows = apply_changes(_read(base, needed, where), effective, pin.primary_key)
    return filters.apply_filter(rows, where, schema).select(columns)


def _effective(
    pin: Pin,
    base: Table,
    change: Table,
    files: Sequence[LineageFile],
    *,
    needed: Sequence[str],
    on_keys: BooleanExpression,
) -> pa.Table:
    """Read the changes that take effect, one for each key."""
    sequence = pin.sequence_field
    columns = _ordered(change.schema(), {*needed, OP, *([sequence] if sequence else [])})
    # A file's sequence number is never below that of its rows: compaction raises it.
    pending = [file for file in files if file.sequence_number > pin.watermark]
    rows = _changes(change, pending, columns, on_keys)
    above = pc.greater(rows[SEQUENCE], pin.watermark)
    last = select_newest(rows.filter(above), pin.primary_key, sequence)
    if sequence is None:
        return last
    facts = [*pin.primary_key, sequence]
    merged = [file for file in files if file.sequence_number <= pin.watermark]
    older = _changes(change, merged, [*facts, OP], on_keys).select([*facts, OP])
    deleted = pa.concat_tables([rows.filter(pc.invert(above)).select([*facts, OP]), older])
    deleted = deleted.filter(pc.equal(deleted[OP], "D"))
    base_rows = _read(base, facts, on_keys)
    return select_effective(last, pin.primary_key, sequence, base_rows=base_rows, deleted=deleted)


def _changes(
    change: Table, files: Sequence[LineageFile], columns: Sequence[str], on_keys: BooleanExpression
) -> pa.Table:
    schema = change.schema()
    picked = Schema(*(schema.find_field(column) for column in columns))
    rows = read_rows(change, files, picked)
    target = schema_to_pyarrow(picked, include_field_ids=False)
    for position, field in enumerate(target):
        rows = rows.set_column(position, field.name, rows[field.name].cast(field.type))
    return filters.apply_filter(rows, on_keys, schema)


def _read(table: Table, columns: Sequence[str], where: BooleanExpression) -> pa.Table:
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


def _columns(scan: Scan, schema: Schema) -> list[str]:
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
