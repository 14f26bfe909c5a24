"""The pending changes of a keyed table, and which of them is the newest of its key (docs/protocols.md, rule 5.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from firn.protocol.partial import SET
from firn.scan.lineage import LINEAGE_FIELDS, ROW_ID, SEQUENCE, LineageFile
from firn.scan.newest import OP, select_newest, select_oldest_inserts
from firn.scan.reading import ColumnReader, FileRows, read_rows
from optimizer.images.key_ranges import ALL_KEYS, KeyRange, choose_sampled, sample_keys

BATCH_ROWS = 4_000_000
"""Rows of key columns that are read at a time, if memory allows it."""
FILE = "firn:file_number"
POSITION = "firn:position"
AT_ONCE_BYTES = 16 * 2**20
"""Change files that are smaller together are read once and kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """The columns that decide which change takes effect."""

    primary_key: tuple[str, ...]
    sequence_field: str | None = None
    insert_only: bool = False
    """Whether the first row of a key wins, base's before all others."""
    age: str | None = None
    """The column with the time of a row, if reads hide old rows."""
    folded: tuple[str, ...] = ()
    """On a table with partial columns: all of its columns, because each change may decide about some of them."""

    @property
    def names(self) -> list[str]:
        """Key columns, then the sequence field."""
        more = self.sequence_field is not None and self.sequence_field not in self.primary_key
        return [*self.primary_key, *([self.sequence_field] if more and self.sequence_field else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The changes to read: pending ones are above the watermark, and none is above `through` or has other keys."""

    watermark: int
    through: int | None = None
    within: KeyRange = ALL_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows of some change files: key columns, `_op`, row id, sequence number, number of the file, position."""

    files: tuple[LineageFile, ...]
    pending: pa.Table
    """Rows above the watermark."""
    merged: pa.Table
    """Merged deletes that compacted files still hold; empty without a sequence field, which alone needs them."""
    rows: tuple[pa.Table, ...] = ()
    """All rows of each file in base's schema, where they were read together with the keys."""


def read_changes(
    change: Table,
    files: Sequence[LineageFile],
    columns: KeyColumns,
    selection: Selection,
    *,
    values: Schema | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Changes:
    """Read the key columns of change files and, if the files are small together, also the columns of `values`.

    About `batch_rows` rows are in memory besides the result.

    To open a small file twice costs a third more. A file's sequence number is never below that of its rows, because
    compaction raises it. So only rows tell which of them are pending.
    """
    if not files:
        raise ValueError("there are no change files to read")
    keys = _list_key_fields(change, columns)
    names = [field.name for field in keys]
    is_small = sum(file.file.file_size_in_bytes for file in files) <= AT_ONCE_BYTES
    more = values.fields if values is not None and is_small and selection.within is ALL_KEYS else ()
    reader = ColumnReader(change, Schema(*keys, *(field for field in more if field.name not in names)))
    pending, merged, rows_by_file = list[pa.Table](), list[pa.Table](), defaultdict[int, list[pa.Table]](list)
    for read in read_rows(reader, [file.file for file in files], batch_rows):
        rows = selection.within.select(_with_places(read, files, names), columns.primary_key)
        if selection.through is not None:
            rows = rows.filter(pc.less_equal(rows[SEQUENCE], selection.through))
        above = pc.greater(rows[SEQUENCE], selection.watermark)
        pending.append(rows.filter(above))
        merged.append(rows.slice(0, 0) if columns.sequence_field is None else rows.filter(pc.invert(above)))
        for number, table in zip(read.numbers, read.tables, strict=True):
            rows_by_file[number] += [table.select([field.name for field in more])] if more else []
    return Changes(
        files=tuple(files),
        pending=pa.concat_tables(pending),
        merged=pa.concat_tables(merged),
        rows=tuple(pa.concat_tables(rows_by_file[number]) for number in range(len(files))) if more else (),
    )


def sample_changes(change: Table, files: Sequence[LineageFile], columns: KeyColumns) -> pa.Table:
    """The columns that `read_changes` reads, of some rows all over the change files."""
    reader = ColumnReader(change, Schema(*_list_key_fields(change, columns)))
    return sample_keys(reader.read(files[number].file) for number in choose_sampled(len(files)))


def _list_key_fields(change: Table, columns: KeyColumns) -> list[NestedField]:
    fields = {field.name: field for field in change.schema().fields}
    more = [*(name for name in columns.folded if name not in columns.names), SET] if columns.folded else []
    age = [] if columns.age is None or columns.age in (*columns.names, *more) else [columns.age]
    return [*(fields[name] for name in [*columns.names, OP, *more, *age]), *LINEAGE_FIELDS]


def find_newest(changes: Changes, columns: KeyColumns) -> pa.Table:
    """The newest pending change of each key, over all pending rows; on an insert-only table its oldest insert."""
    if columns.insert_only:
        return select_oldest_inserts(changes.pending, columns.primary_key)
    rows = changes.pending.select([*columns.names, OP, ROW_ID]) if columns.folded else changes.pending
    return select_newest(rows, columns.primary_key, columns.sequence_field)


def _with_places(read: FileRows, files: Sequence[LineageFile], names: Sequence[str]) -> pa.Table:
    """The rows, with their lineage where a file leaves it to be derived, and with their places."""
    rows = pa.concat_tables(table.select(names) for table in read.tables)
    counts = [len(table) for table in read.tables]
    places = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum([0, *counts[:-1]])
    positions = np.arange(len(rows), dtype=np.int64) - starts[places] + read.start
    own = [files[number] for number in read.numbers]
    first = np.array([-1 if file.first_row_id is None else file.first_row_id for file in own], np.int64)
    derived = pa.array(first[places] + positions, mask=first[places] < 0)
    ids = pc.coalesce(rows[ROW_ID], derived)
    if ids.null_count:
        raise ValueError("a change file has rows without an id, which no writer of format v3 leaves")
    number_of = np.array([file.sequence_number for file in own], np.int64)
    sequences = pc.coalesce(rows[SEQUENCE], pa.array(number_of[places]))
    rows = rows.set_column(rows.schema.get_field_index(ROW_ID), ROW_ID, ids)
    rows = rows.set_column(rows.schema.get_field_index(SEQUENCE), SEQUENCE, sequences)
    numbers = np.array(read.numbers, np.int32)[places]
    return rows.append_column(FILE, pa.array(numbers)).append_column(POSITION, pa.array(positions))
