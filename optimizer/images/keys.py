"""Checks the keys of files that an engine wrote for a keyed table's own name (docs/protocols.md, rule 5.7)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record

from firn.protocol.tasks.image import KeyReport, KeysTask
from firn.scan.reading import ColumnReader, map_files
from optimizer.images.changes import KeyColumns
from optimizer.images.pair import Check

_SHOWN_KEYS = 3
_NO_SPEC = -1
"""Of no partition spec: PyIceberg looks there for columns that a file lacks, and would ask for their partition."""


def check_keys(task: KeysTask, check: Check) -> KeyReport:
    """Count null keys, and find keys of several rows. Sequence fields must not be null either."""
    table = StaticTable.from_metadata(task.metadata, task.file_io)
    check(task.files)
    columns = KeyColumns(primary_key=tuple(task.primary_key), sequence_field=task.sequence_field)
    reader = ColumnReader(table, Schema(*(table.schema().find_field(name) for name in columns.names)))
    tables = map_files(reader.read, [describe_data(file) for file in task.files])
    rows = pa.concat_tables([reader.target.empty_table(), *tables])
    return judge_keys(rows, task.primary_key, finds_repeated=task.finds_repeated)


def judge_keys(rows: pa.Table, primary_key: Sequence[str], *, finds_repeated: bool) -> KeyReport:
    """Count the nulls in each column and, if there are none, find keys of several rows if asked."""
    nulls = {name: count for name in rows.column_names if (count := rows[name].null_count)}
    if nulls or not finds_repeated:
        return KeyReport(nulls=nulls)
    return _find_repeated(rows, primary_key)


def _find_repeated(rows: pa.Table, primary_key: Sequence[str]) -> KeyReport:
    names = list(primary_key)
    counts = rows.select(names).group_by(names).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    samples = [
        ", ".join(f"{name}={row[name]!r}" for name in names) for row in repeated.slice(0, _SHOWN_KEYS).to_pylist()
    ]
    return KeyReport(nulls={}, repeated=len(repeated), samples=samples)


def describe_data(location: str) -> DataFile:
    """The file as readers need it: its columns are in the file, so its partition does not matter."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=0,
        file_size_in_bytes=0,
    )
    file.spec_id = _NO_SPEC
    return file
