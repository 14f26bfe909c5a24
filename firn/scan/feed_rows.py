"""What a change feed reads: the changes of some commits, and a keyed table's merged rows at a version.

The rows come through `Stores`, at snapshots of the past but with the columns that the table has now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from firn.errors import Refused
from firn.protocol.answers.changes import ChangePlan, FeedCommit, FeedVersion
from firn.scan.avro import read_avro_rows
from firn.scan.lineage import LINEAGE_FIELDS, ROW_ID, SEQUENCE, LineageFile, list_added_files, list_lineage_files
from firn.scan.newest import OP, select_effective, select_keys, select_newest, subtract_keys
from firn.scan.reading import ColumnReader, map_files, number_rows

_MOST_KEYS_IN_FILTER = 1_000
_LITERALS = (int, str)
Check = Callable[[Sequence[str]], None]
"""Called with files before they are opened; raises if one of them may not be."""
Measure = Callable[[int], None]
"""Called with the bytes of data files before they are read; raises if these are too many."""


def allow_all(files: Sequence[str]) -> None:
    """Open any file: those of a reader whose own credentials decide."""
    del files


def allow_any_size(size: int) -> None:
    """Read any number of bytes."""
    del size


@dataclass(frozen=True)
class Stores:
    """The two stores of a keyed table, as they are now or later than the versions that are read."""

    base: Table
    change: Table
    plan: ChangePlan
    check: Check = allow_all
    measure: Measure = allow_any_size

    @property
    def keys(self) -> list[str]:
        """The columns of the primary key."""
        return self.plan.primary_key

    @cached_property
    def _of_base(self) -> ColumnReader:
        return ColumnReader(self.base, self.base.schema())

    @cached_property
    def _of_change(self) -> ColumnReader:
        fields = [self.change.schema().find_field(name) for name in (*self.plan.columns, OP)]
        return ColumnReader(self.change, Schema(*fields, *LINEAGE_FIELDS))

    @property
    def target(self) -> pa.Schema:
        """The table's columns with their types in a feed."""
        return pa.schema([self._of_base.target.field(name) for name in self.plan.columns])

    @cached_property
    def appended(self) -> pa.Table:
        """The changes of all commits of the plan; see `read_appended`."""
        return self.read_appended(self.plan.appends)

    def read_appended(self, commits: Sequence[FeedCommit]) -> pa.Table:
        """The changes of these commits: the table's columns, `_op`, row id and sequence number."""
        files = [file for commit in commits for file in self._list_added(int(commit.snapshot_id))]
        return self._read_changes(files)

    def read_state(self, version: FeedVersion, keys: pa.Table) -> pa.Table:
        """The merged rows at a version whose keys are among `keys` (docs/protocols.md, rule 1.2)."""
        base = self._read_base(_to_id(version.base_snapshot_id), keys)
        changes = self._select(self.read_store_changes(version), keys)
        above = pc.greater(changes[SEQUENCE], version.watermark)
        pending, merged = changes.filter(above), changes.filter(pc.invert(above))
        newest = select_newest(pending, self.keys, self.plan.sequence_field)
        if self.plan.sequence_field is not None:
            names = [*dict.fromkeys([*self.keys, self.plan.sequence_field])]
            deleted = merged.filter(pc.equal(merged[OP], "D")).select(names)
            newest = select_effective(
                newest, self.keys, self.plan.sequence_field, base_rows=base.select(names), deleted=deleted
            )
        shown = newest.filter(pc.not_equal(newest[OP], "D")).select(self.plan.columns)
        return pa.concat_tables([subtract_keys(base, newest, self.keys), self._cast(shown)])

    def read_store_changes(self, version: FeedVersion) -> pa.Table:
        """The changes that the change store holds at a version and that decide its rows."""
        snapshot_id = _to_id(version.change_snapshot_id)
        if snapshot_id is None:
            return self._read_changes([])
        files = list_lineage_files(self._pin(self.change, snapshot_id))
        is_late = self.plan.sequence_field is not None
        return self._read_changes([file for file in files if is_late or file.sequence_number > version.watermark])

    def read_changed_keys(self, before: str | None, after: str | None) -> pa.Table:
        """The keys in files of base that differ between two snapshots, also by their deletes."""
        plans = [self._plan_base(_to_id(snapshot_id), AlwaysTrue()) for snapshot_id in (before, after)]
        seen = [{_identify(task) for task in tasks} for tasks in plans]
        files = {
            task.file.file_path: task.file
            for tasks, others in zip(plans, reversed(seen), strict=True)
            for task in tasks
            if _identify(task) not in others
        }
        self.check(sorted(files))
        self.measure(sum(file.file_size_in_bytes for file in files.values()))
        reader = ColumnReader(self.base, Schema(*(self.base.schema().find_field(key) for key in self.keys)))
        return pa.concat_tables([reader.target.empty_table(), *map_files(reader.read, list(files.values()))])

    def _list_added(self, snapshot_id: int) -> list[LineageFile]:
        try:
            return list_added_files(self._pin(self.change, snapshot_id), snapshot_id)
        except KeyError as error:
            raise _expired(snapshot_id) from error

    def _read_base(self, snapshot_id: int | None, keys: pa.Table) -> pa.Table:
        tasks = self._plan_base(snapshot_id, _where(keys, self.keys))
        if snapshot_id is None or not tasks:
            return self.target.empty_table()
        self.check(
            [path for task in tasks for path in (task.file.file_path, *(d.file_path for d in task.delete_files))]
        )
        self.measure(sum(task.file.file_size_in_bytes for task in tasks))
        table = self._pin(self.base, snapshot_id)
        rows = [_read_task(table, task) for task in tasks]
        return self._select(pa.concat_tables([self.target.empty_table(), *map(self._cast, rows)]), keys)

    def _plan_base(self, snapshot_id: int | None, where: BooleanExpression) -> list[FileScanTask]:
        if snapshot_id is None:
            return []
        return list(self._pin(self.base, snapshot_id).scan(row_filter=where).plan_files())

    def _pin(self, table: Table, snapshot_id: int) -> Table:
        """The table at a snapshot, with its columns of now."""
        snapshot = table.metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise _expired(snapshot_id)
        self.check([snapshot.manifest_list])
        self.check([manifest.manifest_path for manifest in snapshot.manifests(table.io)])
        metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot_id})
        return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)

    def _read_changes(self, files: Sequence[LineageFile]) -> pa.Table:
        self.check([file.file.file_path for file in files])
        self.measure(sum(file.file.file_size_in_bytes for file in files))
        tables = map_files(self._read_lineage, files)
        return pa.concat_tables([self._of_change.target.empty_table(), *tables])

    def _read_lineage(self, file: LineageFile) -> pa.Table:
        """The rows of a change file, with their row ids and sequence numbers where the file leaves them out."""
        rows = self._of_change.read(file.file)
        first = pa.scalar(file.first_row_id, pa.int64())
        ids = pc.coalesce(rows[ROW_ID], pc.add(number_rows(len(rows)), first))
        sequences = pc.coalesce(rows[SEQUENCE], pa.scalar(file.sequence_number, pa.int64()))
        rows = rows.set_column(rows.schema.get_field_index(ROW_ID), self._of_change.target.field(ROW_ID), ids)
        return rows.set_column(rows.schema.get_field_index(SEQUENCE), self._of_change.target.field(SEQUENCE), sequences)

    def _select(self, rows: pa.Table, keys: pa.Table) -> pa.Table:
        numbered = select_keys(rows, self.keys).append_column("i", number_rows(len(rows)))
        names = numbered.column_names[:-1]
        joined = numbered.join(select_keys(keys, self.keys), names, join_type="left semi")
        return rows.take(joined["i"].combine_chunks())

    def _cast(self, rows: pa.Table) -> pa.Table:
        return pa.table([rows[field.name].cast(field.type) for field in self.target], schema=self.target)


def _read_task(table: Table, task: FileScanTask) -> pa.Table:
    if task.file.file_format is FileFormat.AVRO:  # which PyIceberg does not read
        return pa.concat_tables(read_avro_rows(table, [task], table.schema()))
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])


def _where(keys: pa.Table, names: Sequence[str]) -> BooleanExpression:
    """A filter that leaves out files of base without any of the keys, by their first column."""
    column = keys[names[0]]
    if not len(column) or not isinstance(column[0].as_py(), _LITERALS) or isinstance(column[0].as_py(), bool):
        return AlwaysTrue()
    values = pc.unique(column)
    if len(values) <= _MOST_KEYS_IN_FILTER:
        return In(term=Reference(names[0]), literals={literal(value) for value in values.to_pylist()})
    ends = pc.min_max(column).as_py()
    lowest, highest = (literal(ends[end]) for end in ("min", "max"))
    column_name = Reference(names[0])
    return And(GreaterThanOrEqual(term=column_name, value=lowest), LessThanOrEqual(term=column_name, value=highest))


def _identify(task: FileScanTask) -> tuple[object, ...]:
    """A data file with the deletes that apply to it."""
    return task.file.file_path, frozenset(file.file_path for file in task.delete_files)


def _to_id(text: str | None) -> int | None:
    return None if text is None else int(text)


def _expired(snapshot_id: int) -> Refused:
    return Refused(
        f"snapshot {snapshot_id} has expired while its changes were read",
        hint="read again: the error then names the first version that is left",
    )
