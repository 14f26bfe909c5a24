"""Writes files of base again, with the changes of their partition, where hidden rows would cost readers more.

A merge by adoption may do so (docs/protocols.md, rule 5.6). A rewritten file has the rows that base shows in the old
files, without the hidden ones, and then the shown changes of the partition. In format v3 the old rows keep their ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyroaring import BitMap64

from firn.protocol.tasks.image import Pack
from firn.protocol.tasks.merge import RewriteRule
from firn.scan.lineage import LINEAGE_FIELDS, ROW_ID, SEQUENCE, LineageFile
from firn.scan.reading import ColumnReader, map_files
from optimizer.images.hidden import Hidden
from optimizer.images.packs import PART_ROWS, PackSource, Picked, collect_rows

ROW_GROUP_BYTES = 32 * 2**20
"""Of a rewritten file, before compression."""
_ROWS_OF_A_DICTIONARY_BYTE = 2
"""A larger dictionary is of a column with many values: it would take time, and make the file larger."""
PartitionKey = tuple[object, ...]
"""The id of a partition spec of base, and the partition's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """When and how a layer writes base's files again. `lineage` has base's files by path; None in format v2."""

    rule: RewriteRule
    lineage: Mapping[str, LineageFile] | None


@dataclass(slots=True)
class Partition:
    """A partition that changes touch: base's files in it, and the change files with shown rows, by number."""

    tasks: list[FileScanTask] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    is_touched: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The files of one partition that become new ones, with the positions that these leave out, and what is added."""

    files: Sequence[DataFile]
    gone: Mapping[str, BitMap64]
    picked: Sequence[Picked]


def list_touched(
    base: Table,
    base_files: Iterable[FileScanTask],
    change: Table,
    files: Sequence[LineageFile],
    hidden: Hidden,
    shown: Mapping[int, BitMap64],
) -> list[Partition]:
    """The touched partitions of base's current spec. Those of older specs are never written again."""
    current = base.spec().spec_id
    partitions: dict[PartitionKey, Partition] = defaultdict(Partition)
    for task in base_files:
        partition = partitions[_key_of(task.file, task.file.spec_id)]
        partition.tasks.append(task)
        partition.is_touched |= task.file.file_path in hidden
    specs = {spec_id: _find_same_spec(base, spec) for spec_id, spec in change.specs().items()}
    for number in shown:
        file = files[number].file
        partition = partitions[_key_of(file, specs.get(file.spec_id, -1))]
        partition.numbers.append(number)
        partition.is_touched = True
    return [partition for key, partition in partitions.items() if key[0] == current and partition.is_touched]


def choose_rewrites(
    partitions: Iterable[Partition],
    hidden: Hidden,
    deleted: Hidden,
    shown: Mapping[int, BitMap64],
    rule: RewriteRule,
) -> list[Rewrite]:
    """The files to write again: all of a partition of which a large share changes, else its small ones.

    Where that is more than the rule allows, the partitions with the largest shares come first.
    """
    candidates = list[tuple[float, int, Rewrite]]()
    for partition in partitions:
        gone = {
            path: hidden.get(path, BitMap64()) | deleted.get(path, BitMap64())
            for path in (task.file.file_path for task in partition.tasks)
        }
        added = sum(len(shown[number]) for number in partition.numbers)
        rows = sum(task.file.record_count for task in partition.tasks)
        share = (added + sum(map(len, gone.values()))) / max(rows, 1)
        files = _choose_files(partition, hidden, rule, everything=share >= rule.large_share)
        if files:
            picked = [(number, np.array(shown[number].to_array(), np.int64)) for number in partition.numbers]
            size = sum(file.file_size_in_bytes for file in files)
            own = {file.file_path: gone[file.file_path] for file in files}
            candidates.append((share, size, Rewrite(files, own, picked)))
    chosen, total = list[Rewrite](), 0
    for _, size, rewrite in sorted(candidates, key=lambda candidate: (-candidate[0], candidate[1])):
        if total + size <= rule.most_bytes:
            chosen.append(rewrite)
            total += size
    return chosen


def list_covered_deletes(base_files: Iterable[FileScanTask], removed: set[str]) -> list[str]:
    """The position-delete files that apply to removed files alone. A vector goes with its data file anyway."""
    applies: dict[str, bool] = {}
    for task in base_files:
        for delete in task.delete_files:
            if delete.file_format is not FileFormat.PUFFIN:
                path = delete.file_path
                applies[path] = applies.get(path, True) and task.file.file_path in removed
    return sorted(path for path, is_covered in applies.items() if is_covered)


def write_rewrites(
    base: Table, rewrites: Sequence[Rewrite], rewriting: Rewriting, source: PackSource, *, directory: str, name: str
) -> list[Pack]:
    """Write the new files; each is `like` an old one of its partition. A rewrite without rows gives no file.

    For each partition that is being written, the rows of one row group and one part of a file are in memory.
    """
    fields = [*base.schema().fields, *(LINEAGE_FIELDS if rewriting.lineage is not None else ())]
    reader = ColumnReader(base, Schema(*fields))
    target = schema_to_pyarrow(Schema(*fields), include_field_ids=True)

    def write(numbered: tuple[int, Rewrite]) -> list[Pack]:
        number, rewrite = numbered
        rows = _read_rows(reader, rewrite, rewriting.lineage, source, target)
        rule = _limit_dictionary(rewriting.rule, sum(file.record_count for file in rewrite.files))
        written = _write_files(base, rows, target, rule, f"{directory}/{name}-{number}")
        return [Pack(location=path, rows=count, like=rewrite.files[0].file_path) for path, count in written]

    return [pack for packs in map_files(write, list(enumerate(rewrites))) for pack in packs]


def _choose_files(partition: Partition, hidden: Hidden, rule: RewriteRule, *, everything: bool) -> list[DataFile]:
    files = [task.file for task in partition.tasks if task.file.file_format is FileFormat.PARQUET]
    if everything:
        return files
    small = [file for file in files if file.file_size_in_bytes <= rule.small_bytes]
    is_worth_it = bool(partition.numbers) or any(file.file_path in hidden for file in small)
    return small if is_worth_it else []


def _read_rows(
    reader: ColumnReader,
    rewrite: Rewrite,
    lineage: Mapping[str, LineageFile] | None,
    source: PackSource,
    target: pa.Schema,
) -> Iterator[pa.Table]:
    for file in rewrite.files:
        start, gone = 0, rewrite.gone[file.file_path]
        for part in reader.read_parts(file, PART_ROWS):
            rows = part if lineage is None else _with_lineage(part, lineage[file.file_path], start)
            if gone:
                rows = rows.filter(_build_mask(gone, start, len(rows)))
            start += len(part)
            yield rows
        if start != file.record_count:
            raise ValueError(f"{file.file_path} has {start} rows, and its manifest says {file.record_count}")
    for rows in collect_rows(source, rewrite.picked) if rewrite.picked else ():
        columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in target]
        yield pa.table(columns, names=target.names)


def _with_lineage(rows: pa.Table, file: LineageFile, start: int) -> pa.Table:
    """Rows that have no id in the file get the one that follows from their place. What stays null is new again."""
    ids = rows[ROW_ID]
    if file.first_row_id is not None:
        first = file.first_row_id + start
        ids = pc.coalesce(ids, pa.array(np.arange(first, first + len(rows), dtype=np.int64)))
    sequences = pc.if_else(pc.is_valid(ids), pc.coalesce(rows[SEQUENCE], file.sequence_number), None)
    rows = rows.set_column(rows.schema.get_field_index(ROW_ID), ROW_ID, ids)
    return rows.set_column(rows.schema.get_field_index(SEQUENCE), SEQUENCE, sequences)


def _build_mask(gone: BitMap64, start: int, count: int) -> pa.Array:
    mask = np.ones(count, bool)
    inside = gone & BitMap64(range(start, start + count))
    mask[np.array(inside.to_array(), np.int64) - start] = False
    return pa.array(mask)


def _write_files(
    base: Table, rows: Iterator[pa.Table], target: pa.Schema, rule: RewriteRule, name: str
) -> list[tuple[str, int]]:
    """Write the rows to files of about the target size; returns their locations and numbers of rows."""
    written = list[tuple[str, int]]()
    groups = _collect_groups(rows)
    group = next(groups, None)
    while group is not None:
        location = f"{name}-{len(written)}.parquet"
        with base.io.new_output(location).create() as sink, _open_writer(sink, target, rule) as writer:
            count = 0
            while group is not None and (not count or sink.tell() < rule.target_bytes):
                writer.write_table(group.cast(target), row_group_size=len(group))
                count += len(group)
                group = next(groups, None)
        written.append((location, count))
    return written


def _limit_dictionary(rule: RewriteRule, rows: int) -> RewriteRule:
    limit = max(rows // _ROWS_OF_A_DICTIONARY_BYTE, 1024)
    return rule.model_copy(update={"dictionary_bytes": min(rule.dictionary_bytes, limit)})


def _collect_groups(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows in tables of the size of a row group; none is empty."""
    tables, size = list[pa.Table](), 0
    for table in rows:
        if not len(table):
            continue
        tables.append(table)
        size += table.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(tables)
            tables, size = [], 0
    if tables:
        yield pa.concat_tables(tables)


def _open_writer(sink: OutputStream, target: pa.Schema, rule: RewriteRule) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        target,
        compression=rule.codec,
        compression_level=rule.level,
        dictionary_pagesize_limit=rule.dictionary_bytes,
        store_schema=False,
    )


def _key_of(file: DataFile, spec_id: int) -> PartitionKey:
    return (spec_id, *(file.partition[place] for place in range(len(file.partition))))


def _find_same_spec(base: Table, spec: PartitionSpec) -> int:
    """The id of base's spec that partitions like this one of the change store; -1 if there is none."""
    fields = _list_fields(spec)
    return next((other.spec_id for other in base.specs().values() if _list_fields(other) == fields), -1)


def _list_fields(spec: PartitionSpec) -> list[tuple[int, str]]:
    return [(partition_field.source_id, str(partition_field.transform)) for partition_field in spec.fields]
