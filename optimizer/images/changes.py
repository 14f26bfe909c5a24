"""The pending changes of a keyed table, and which of them is the newest of its key (docs/protocols.md, rule 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from optimizer.images.lineage import ROW_ID, SEQUENCE, LineageFile
from optimizer.images.newest import OP, select_newest
from optimizer.images.reading import ColumnReader, map_files

FILE = "_file_number"
POSITION = "_position"
AT_ONCE_BYTES = 16 * 2**20
"""Change files that are smaller together are read once and kept in memory."""
_LINEAGE = (
    NestedField(field_id=2147483540, name=ROW_ID, field_type=LongType(), required=False),
    NestedField(field_id=2147483539, name=SEQUENCE, field_type=LongType(), required=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """The columns that decide which change takes effect."""

    primary_key: tuple[str, ...]
    sequence_field: str | None = None

    @property
    def names(self) -> list[str]:
        """Key columns, then the sequence field."""
        more = self.sequence_field is not None and self.sequence_field not in self.primary_key
        return [*self.primary_key, *([self.sequence_field] if more and self.sequence_field else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows of some change files: key columns, `_op`, row id, sequence number, number of the file, position."""

    files: tuple[LineageFile, ...]
    pending: pa.Table
    """Those above the watermark."""
    merged: pa.Table
    """Those at or below it, which compacted files still hold."""
    rows: tuple[pa.Table, ...] = ()
    """All rows of each file in base's schema, where they were read together with the keys."""


def read_changes(
    change: Table,
    files: Sequence[LineageFile],
    columns: KeyColumns,
    watermark: int,
    *,
    through: int | None = None,
    values: Schema | None = None,
) -> Changes:
    """Read the key columns of change files and, if the files are small together, also the columns of `values`.

    Rows above `through` are left out.

    To open a small file twice costs a third more. A file's sequence number is never below that of its rows, because
    compaction raises it. So only rows tell which of them are pending.
    """
    if not files:
        raise ValueError("there are no change files to read")
    keys = [change.schema().find_field(name) for name in [*columns.names, OP]] + [*_LINEAGE]
    names = [field.name for field in keys]
    is_small = sum(file.file.file_size_in_bytes for file in files) <= AT_ONCE_BYTES
    more = values.fields if values is not None and is_small else ()
    reader = ColumnReader(change, Schema(*keys, *(field for field in more if field.name not in names)))
    tables = map_files(lambda file: reader.read(file.file), files)
    rows = _with_places([table.select(names) for table in tables], files)
    if through is not None:
        rows = rows.filter(pc.less_equal(rows[SEQUENCE], through))
    above = pc.greater(rows[SEQUENCE], watermark)
    return Changes(
        files=tuple(files),
        pending=rows.filter(above),
        merged=rows.filter(pc.invert(above)),
        rows=tuple(table.select([field.name for field in more]) for table in tables) if more else (),
    )


def find_newest(changes: Changes, columns: KeyColumns) -> pa.Table:
    """The newest pending change of each key, over all pending rows at once."""
    return select_newest(changes.pending, columns.primary_key, columns.sequence_field)


def _with_places(tables: Sequence[pa.Table], files: Sequence[LineageFile]) -> pa.Table:
    """The rows of all files, with their lineage where a file leaves it to be derived, and with their places."""
    rows = pa.concat_tables(tables)
    counts = [len(table) for table in tables]
    numbers = np.repeat(np.arange(len(files), dtype=np.int32), counts)
    starts = np.cumsum([0, *counts[:-1]])
    positions = np.arange(len(rows), dtype=np.int64) - starts[numbers]
    first = np.array([-1 if file.first_row_id is None else file.first_row_id for file in files], np.int64)
    derived = pa.array(first[numbers] + positions, mask=first[numbers] < 0)
    ids = pc.coalesce(rows[ROW_ID], derived)
    if ids.null_count:
        raise ValueError("a change file has rows without an id, which no writer of format v3 leaves")
    number_of = np.array([file.sequence_number for file in files], np.int64)
    sequences = pc.coalesce(rows[SEQUENCE], pa.array(number_of[numbers]))
    rows = rows.set_column(rows.schema.get_field_index(ROW_ID), ROW_ID, ids)
    rows = rows.set_column(rows.schema.get_field_index(SEQUENCE), SEQUENCE, sequences)
    return rows.append_column(FILE, pa.array(numbers)).append_column(POSITION, pa.array(positions))
