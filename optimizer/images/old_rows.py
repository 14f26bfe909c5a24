"""Finds the rows of base that are too old for reads (docs/protocols.md, rule 5.14).

Bounds tell of most files whether all of their rows are too old, or none. Only the others are opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField, PrimitiveType

from firn.protocol.tasks.image import OldRows
from firn.scan.old_rows import find_old
from firn.scan.reading import ColumnReader, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFiles:
    """Files that have old rows: the paths of those without any other row, and those that may have both."""

    whole: frozenset[str] = frozenset()
    part: Sequence[DataFile] = ()


def find_old_files(base: Table, tasks: Iterable[FileScanTask], hides: OldRows | None) -> OldFiles:
    """Find the files of base with rows that are too old, by their bounds."""
    if hides is None or not hides.of_base:
        return OldFiles()
    field, whole, part = base.schema().find_field(hides.field_id), list[str](), list[DataFile]()
    for task in tasks:
        lower, upper = (_read_bound(field, bounds) for bounds in (task.file.lower_bounds, task.file.upper_bounds))
        if lower is not None and lower >= hides.value:
            continue
        has_nulls = (task.file.null_value_counts or {}).get(field.field_id, 1) > 0
        if upper is not None and upper < hides.value and not has_nulls:
            whole.append(task.file.file_path)
        elif upper is not None or not _has_only_nulls(field, task.file):
            part.append(task.file)
    return OldFiles(whole=frozenset(whole), part=part)


def list_old_positions(
    base: Table, files: Sequence[DataFile], hides: OldRows, *, batch_rows: int
) -> Iterator[tuple[str, np.ndarray]]:
    """The positions of old rows in each of these files; a large file may come several times."""
    field = base.schema().find_field(hides.field_id)
    reader = ColumnReader(base, Schema(field))
    for read in read_rows(reader, files, batch_rows):
        for number, table in zip(read.numbers, read.tables, strict=True):
            places = np.flatnonzero(find_old(table, field.name, hides.value)) + read.start
            if len(places):
                yield files[number].file_path, places


def _read_bound(field: NestedField, bounds: dict[int, bytes] | None) -> int | None:
    value = (bounds or {}).get(field.field_id)
    if value is None or not isinstance(field.field_type, PrimitiveType):
        return None
    return int(from_bytes(field.field_type, value))


def _has_only_nulls(field: NestedField, file: DataFile) -> bool:
    return (file.null_value_counts or {}).get(field.field_id) == file.record_count
