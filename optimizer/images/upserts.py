"""Turns the files of a commit with equality deletes into changes (docs/protocols.md, rule 5.10).

Data files whose rows are all visible stay as they are. Those of which the commit's own position deletes hide rows are
written anew, batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

from firn.protocol.tasks.image import KeyReport, Pack, UpsertedRows, UpsertsTask
from firn.scan.newest import subtract_keys
from firn.scan.reading import ColumnReader, map_files
from optimizer.images.changes import KeyColumns
from optimizer.images.deletes import OP_FIELD, describe_positions, mark_deleted
from optimizer.images.hidden import Hidden, read_hidden
from optimizer.images.keys import describe_data, judge_keys
from optimizer.images.pair import Check, make_directory


def read_upserts(task: UpsertsTask, check: Check) -> UpsertedRows:
    """Write the changes that the data files are not yet. ValueError for positions that no file has."""
    table = StaticTable.from_metadata(task.metadata, task.file_io)
    check([*task.files, *(file for group in task.equality_deletes for file in group), *task.position_deletes])
    hidden = read_hidden(table.io, map(describe_positions, set(task.position_deletes)))
    if foreign := hidden.keys() - {*task.files}:
        return UpsertedRows(report=KeyReport(nulls={}), foreign=min(foreign))
    columns = KeyColumns(primary_key=tuple(task.primary_key), sequence_field=task.sequence_field)
    rows = _read_columns(table, columns.names, task.files)
    counts = {path: len(of_file) for path, of_file in zip(task.files, rows, strict=True)}
    visible = [_drop(of_file, hidden.get(path)) for path, of_file in zip(task.files, rows, strict=True)]
    shown = pa.concat_tables([_make_reader(table, columns.names).target.empty_table(), *visible])
    report = judge_keys(shown, task.primary_key, finds_repeated=task.sequence_field is None)
    deleted = [pa.concat_tables(_read_columns(table, task.primary_key, group)) for group in task.equality_deletes]
    for keys in deleted if not report.nulls else ():
        report = KeyReport(nulls=nulls) if (nulls := judge_keys(keys, (), finds_repeated=False).nulls) else report
    if report.nulls or report.repeated:
        return UpsertedRows(report=report)
    make_directory(task.directory)
    return UpsertedRows(
        report=report,
        rewritten=_rewrite_files(table, task, hidden, counts),
        hidden=[path for path, positions in hidden.items() if len(positions) == counts[path]],
        deletes=_write_deletes(table, task, deleted, shown),
    )


def _make_reader(table: StaticTable, names: Sequence[str]) -> ColumnReader:
    return ColumnReader(table, Schema(*(table.schema().find_field(name) for name in names)))


def _read_columns(table: StaticTable, names: Sequence[str], paths: Sequence[str]) -> list[pa.Table]:
    return map_files(_make_reader(table, names).read, [describe_data(path) for path in paths])


def _drop(rows: pa.Table, positions: BitMap64 | None) -> pa.Table:
    if not positions:
        return rows
    if positions.max() >= len(rows):
        raise ValueError(f"a file of {len(rows)} rows has no row at position {positions.max()}")
    return rows.filter(_build_mask(positions, 0, len(rows)))


def _build_mask(positions: BitMap64, first: int, count: int) -> pa.Array:
    """Select the rows among `count` from position `first` on that are not at these positions."""
    mask = np.ones(count, bool)
    mask[np.array((positions & BitMap64(range(first, first + count))).to_array(), np.int64) - first] = False
    return pa.array(mask)


def _rewrite_files(table: StaticTable, task: UpsertsTask, hidden: Hidden, counts: Mapping[str, int]) -> list[Pack]:
    written = []
    for number, (path, positions) in enumerate(sorted(hidden.items())):
        if len(positions) < counts[path]:
            location = f"{task.directory}/{task.name}-u{number}.parquet"
            _rewrite(table, path, positions, location)
            written.append(Pack(location=location, rows=counts[path] - len(positions), like=path))
    return written


def _rewrite(table: StaticTable, path: str, positions: BitMap64, location: str) -> None:
    """Copy the visible rows of a file; its schema has the field ids."""
    with table.io.new_input(path).open() as stream, table.io.new_output(location).create() as sink:
        source, first = pq.ParquetFile(stream), 0
        with pq.ParquetWriter(sink, source.schema_arrow, compression="zstd", store_schema=False) as writer:
            for batch in source.iter_batches():
                rows = batch.filter(_build_mask(positions, first, len(batch)))
                first += len(batch)
                if len(rows):
                    writer.write_batch(rows)


def _write_deletes(table: StaticTable, task: UpsertsTask, deleted: Sequence[pa.Table], shown: pa.Table) -> list[Pack]:
    """A file of deletes for each group with keys that no visible row has."""
    key = Schema(*(table.schema().find_field(name) for name in task.primary_key), OP_FIELD)
    target, written = schema_to_pyarrow(key, include_field_ids=True), []
    for number, (paths, rows) in enumerate(zip(task.equality_deletes, deleted, strict=True)):
        gone = subtract_keys(rows, shown, task.primary_key)
        if len(gone):
            location = f"{task.directory}/{task.name}-d{number}.parquet"
            with table.io.new_output(location).create() as sink:
                pq.write_table(mark_deleted(gone, target), sink, compression="zstd", store_schema=False)
            written.append(Pack(location=location, rows=len(gone), like=paths[0]))
    return written
