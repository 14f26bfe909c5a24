"""The pending changes of a keyed table, and which of them is the newest of its key (docs/protocols.md, rule 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from firn.scan.lineage import ROW_ID, SEQUENCE, LineageFile, counted
from firn.scan.merge import OP, newest
from optimizer.images.reading import map_files, read_columns

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
    wanted = Schema(*(schema.find_field(name) for name in [*columns.names, OP]), *_LINEAGE)

    def read(numbered: tuple[int, LineageFile]) -> pa.Table:
        number, file = numbered
        return _with_places(read_columns(change, file.file, wanted), file, number)

    if not files:
        raise ValueError("there are no change files to read")
    rows = pa.concat_tables(map_files(read, list(enumerate(files))))
    above = pc.greater(rows[SEQUENCE], watermark)
    if pc.all(above).as_py():
        return Changes(files=tuple(files), pending=rows, merged=rows.slice(0, 0))
    return Changes(files=tuple(files), pending=rows.filter(above), merged=rows.filter(pc.invert(above)))


def find_newest(changes: Changes, columns: KeyColumns) -> pa.Table:
    """The newest pending change of each key, over all pending rows at once."""
    return newest(changes.pending, columns.primary_key, columns.sequence_field)


def _with_places(rows: pa.Table, file: LineageFile, number: int) -> pa.Table:
    count = len(rows)
    ids, sequences = rows[ROW_ID], rows[SEQUENCE]
    if file.first_row_id is not None:
        ids = pc.coalesce(ids, counted(count, start=file.first_row_id))
    if ids.null_count:
        raise ValueError(f"{file.file.file_path} has rows without an id, which no writer of format v3 leaves")
    sequences = pc.coalesce(sequences, pa.scalar(file.sequence_number, pa.int64()))
    rows = rows.set_column(rows.schema.get_field_index(ROW_ID), ROW_ID, ids)
    rows = rows.set_column(rows.schema.get_field_index(SEQUENCE), SEQUENCE, sequences)
    rows = rows.append_column(FILE, pa.repeat(pa.scalar(number, pa.int32()), count))
    return rows.append_column(POSITION, counted(count, start=0))
