"""One scan: pin both stores, read what can matter, merge, filter, project.

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
from firn.scan.avro import READ_BY_SPARK, avro_rows
from firn.scan.lineage import SEQUENCE, LineageFile, lineage_files, read_rows
from firn.scan.merge import OP, applied, newest, taking_effect
from firn.scan.projection import correct_projection

_ROUNDS = 3

# It warns once a file that the nanoseconds of Hive's timestamps become microseconds, as the table's type says.
_PYICEBERG = logging.getLogger("pyiceberg.io.pyarrow")
if _PYICEBERG.level == logging.NOTSET:
    _PYICEBERG.setLevel(logging.ERROR)
correct_projection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One store as it was at one moment: the name under which the Iceberg catalog serves it."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Both stores of a keyed table at one moment, and what merging them takes."""

    primary_key: tuple[str, ...]
    sequence_field: str | None
    watermark: int
    pending: bool
    base: Pinned
    change: Pinned


class Source(Protocol):
    """Where a scan finds its table."""

    def pin(self) -> Pin | None:
        """Both stores as they are now; None for a plain table, NotFound for none at all."""

    def load(self, name: Sequence[str] | None = None) -> Table:
        """An Iceberg table of the catalog, by default the one that is scanned; NoSuchTableError if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What is to be read.  Every call of `to_arrow` reads the table as it is then.

    `filter` is judged as SQL judges WHERE (comparisons with NaN are Arrow's: never true).
    """

    source: Source
    filter: str | None = None
    columns: tuple[str, ...] | None = None
    before: Callable[[], None] = lambda: None
    """Called before each reading."""

    def to_arrow(self) -> pa.Table:
        """The rows, in no particular order.

        Invalid for a filter or columns that do not fit, NotFound for no table, Refused for an Avro file that
        cannot be decoded and for equality deletes, Unavailable when a file of it is gone.
        """
        self.before()
        try:
            for _ in range(_ROUNDS - 1):
                # A pin ends when its snapshots expire, with its files; Hive-side writers remove files before a sync.
                with suppress(NoSuchTableError, FileNotFoundError):
                    return self._read_once()
            return self._read_once()
        except FileNotFoundError as error:
            raise Unavailable(
                f"a file of the table is gone: {error}",
                hint="if Hive has overwritten it: `firn hive sync TABLE`, then read again",
            ) from error
        except NoSuchTableError as error:
            raise NotFound(f"the table cannot be read: {error}", hint="look with `firn table list`") from error

    def _read_once(self) -> pa.Table:
        pin = self.source.pin()
        return _plain(self) if pin is None else _keyed(self, pin)


def _plain(scan: Scan) -> pa.Table:
    table = scan.source.load()
    schema = table.schema()
    columns = _columns(scan, schema)
    where = filters.parsed(scan.filter, schema)
    return _read(table, columns, where)


def _keyed(scan: Scan, pin: Pin) -> pa.Table:
    base = scan.source.load(pin.base.table)
    schema = base.schema()
    columns = _columns(scan, schema)
    where = filters.parsed(scan.filter, schema)
    if not pin.pending:
        return _read(base, columns, where)
    change = scan.source.load(pin.change.table)
    needed = _ordered(schema, {*columns, *pin.primary_key, *filters.columns_of(where, schema)})
    on_keys = filters.on_columns(where, schema, pin.primary_key)
    files = lineage_files(change)
    effective = _effective(pin, base, change, files, needed=needed, on_keys=on_keys)
    # The filter may go to base whole: a row of base either stays as it is or is replaced, whatever the filter says.
    rows = applied(_read(base, needed, where), effective, pin.primary_key)
    return filters.filtered(rows, where, schema).select(columns)


def _effective(
    pin: Pin,
    base: Table,
    change: Table,
    files: Sequence[LineageFile],
    *,
    needed: Sequence[str],
    on_keys: BooleanExpression,
) -> pa.Table:
    """The changes that take effect, one a key."""
    sequence = pin.sequence_field
    columns = _ordered(change.schema(), {*needed, OP, *([sequence] if sequence else [])})
    # A file's sequence number is never below that of its rows: compaction raises it.
    pending = [file for file in files if file.sequence_number > pin.watermark]
    rows = _changes(change, pending, columns, on_keys)
    above = pc.greater(rows[SEQUENCE], pin.watermark)
    last = newest(rows.filter(above), pin.primary_key, sequence)
    if sequence is None:
        return last
    facts = [*pin.primary_key, sequence]
    merged = [file for file in files if file.sequence_number <= pin.watermark]
    older = _changes(change, merged, [*facts, OP], on_keys).select([*facts, OP])
    deleted = pa.concat_tables([rows.filter(pc.invert(above)).select([*facts, OP]), older])
    deleted = deleted.filter(pc.equal(deleted[OP], "D"))
    held = _read(base, facts, on_keys)
    return taking_effect(last, pin.primary_key, sequence, held=held, deleted=deleted)


def _changes(
    change: Table, files: Sequence[LineageFile], columns: Sequence[str], on_keys: BooleanExpression
) -> pa.Table:
    schema = change.schema()
    picked = Schema(*(schema.find_field(column) for column in columns))
    rows = read_rows(change, files, picked)
    target = schema_to_pyarrow(picked, include_field_ids=False)
    for position, field in enumerate(target):
        rows = rows.set_column(position, field.name, rows[field.name].cast(field.type))
    return filters.filtered(rows, on_keys, schema)


def _read(table: Table, columns: Sequence[str], where: BooleanExpression) -> pa.Table:
    """Rows of an Iceberg table under its current schema's types, delete files applied.

    PyIceberg judges a filter by a file's partition only where the scan selects the column: it finds no row otherwise.
    """
    selected = _ordered(table.schema(), {*columns, *filters.columns_of(where, table.schema())})
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
        needed = _ordered(schema, {*columns, *filters.columns_of(where, schema)})
        wanted = Schema(*(schema.find_field(column) for column in needed))
        batches = (filters.filtered(batch, where, schema) for batch in avro_rows(table, avro, wanted))
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
    wanted = names if scan.columns is None else list(scan.columns)
    missing = [column for column in wanted if column not in names]
    if missing or len(set(wanted)) != len(wanted):
        what = f"no column {', '.join(map(repr, missing))}" if missing else "a column is asked for twice"
        raise Invalid(f"{what} in the table", hint=f"the columns are {', '.join(names)}; names are case-sensitive")
    return wanted


def _ordered(schema: Schema, columns: set[str]) -> list[str]:
    return [field.name for field in schema.fields if field.name in columns]
