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


def read_changes(change: Table, files: Sequence[LineageFile], columns: KeyColumns, watermark: int) -> Changes:
    """Read the key columns of change files.

    A file's sequence number is never below that of its rows, because compaction raises it. So only rows tell which of
    them are pending.
    """
    schema = change.schema()
    if not files:
        raise ValueError("there are no change files to read")
    reader = ColumnReader(change, Schema(*(schema.find_field(name) for name in [*columns.names, OP]), *_LINEAGE))
    rows = _with_places(map_files(lambda file: reader.read(file.file), files), files)
    above = pc.greater(rows[SEQUENCE], watermark)
    if pc.all(above).as_py():
        return Changes(files=tuple(files), pending=rows, merged=rows.slice(0, 0))
    return Changes(files=tuple(files), pending=rows.filter(above), merged=rows.filter(pc.invert(above)))


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
