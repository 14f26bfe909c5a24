"""The two stores of a keyed table, and their merged rows at a pair of snapshots.

The rows come at snapshots of the past, but with the columns that the loaded tables have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Protocol

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
from firn.protocol.partial import SET, read_groups
from firn.scan.avro import read_avro_rows
from firn.scan.column_rules import read_rules
from firn.scan.folding import BaseRows, FoldedRows, fold_changes
from firn.scan.lineage import LINEAGE_FIELDS, ROW_ID, SEQUENCE, LineageFile, list_lineage_files
from firn.scan.newest import (
    OP,
    select_effective,
    select_keys,
    select_newest,
    select_oldest_inserts,
    subtract_keys,
)
from firn.scan.reading import ColumnReader, map_files, number_rows

_MOST_KEYS_IN_FILTER = 200
"""Of a column. PyIceberg compares no file with more values."""
_LITERALS = (int, str, date)
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


class Layout(Protocol):
    """The facts about a keyed table that its merged rows depend on."""

    @property
    def primary_key(self) -> list[str]:
        """The columns of the key."""

    @property
    def sequence_field(self) -> str | None:
        """The column that orders changes; None if their row ids do."""

    @property
    def columns(self) -> list[str]:
        """The table's columns, in order."""

    @property
    def partial(self) -> bool:
        """Whether a change may set some of the columns only."""

    @property
    def insert_only(self) -> bool:
        """Whether the first row of a key wins."""


class Pair(Protocol):
    """A snapshot of each store, None for a store without one."""

    @property
    def base_snapshot_id(self) -> str | None:
        """The snapshot of base."""

    @property
    def change_snapshot_id(self) -> str | None:
        """The snapshot of the change store."""

    @property
    def watermark(self) -> int:
        """Base has all changes up to this sequence number."""


@dataclass(frozen=True)
class Stores:
    """The two stores of a keyed table, as they are now or later than the pairs that are read."""

    base: Table
    change: Table
    plan: Layout
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
        own = (OP, SET) if self.plan.partial else (OP,)
        fields = [self.change.schema().find_field(name) for name in (*self.plan.columns, *own)]
        return ColumnReader(self.change, Schema(*fields, *LINEAGE_FIELDS))

    @property
    def target(self) -> pa.Schema:
        """The table's columns with their types in a feed."""
        return pa.schema([self._of_base.target.field(name) for name in self.plan.columns])

    @property
    def change_target(self) -> pa.Schema:
        """The columns of changes: the table's, `_op`, on partial tables `_set`, row id and sequence number."""
        return self._of_change.target

    def read_state(self, version: Pair, keys: pa.Table) -> pa.Table:
        """The merged rows of a pair whose keys are among `keys` (docs/protocols.md, rule 1.2)."""
        return self.merge_changes(version, self._select(self.read_store_changes(version), keys), keys)

    def merge_changes(self, version: Pair, changes: pa.Table, keys: pa.Table) -> pa.Table:
        """Merge changes over the rows of base whose keys are among `keys`. All changes have such keys.

        Those above the watermark are pending; of the others, deletes count on tables with a sequence field.
        """
        base = self._read_base(to_snapshot_id(version.base_snapshot_id), keys)
        above = pc.greater(changes[SEQUENCE], version.watermark)
        pending, merged = changes.filter(above), changes.filter(pc.invert(above))
        if not len(pending):
            return base
        if self.plan.insert_only:
            inserts = subtract_keys(select_oldest_inserts(pending, self.keys), base, self.keys)
            return pa.concat_tables([base, self._cast(inserts.select(self.plan.columns))])
        if self.plan.partial:
            return self._fold(base, pending)
        newest = select_newest(pending, self.keys, self.plan.sequence_field)
        if self.plan.sequence_field is not None:
            names = [*dict.fromkeys([*self.keys, self.plan.sequence_field])]
            deleted = merged.filter(pc.equal(merged[OP], "D")).select(names)
            newest = select_effective(
                newest, self.keys, self.plan.sequence_field, base_rows=base.select(names), deleted=deleted
            )
        shown = newest.filter(pc.not_equal(newest[OP], "D")).select(self.plan.columns)
        return pa.concat_tables([subtract_keys(base, newest, self.keys), self._cast(shown)])

    def _fold(self, base: pa.Table, pending: pa.Table) -> pa.Table:
        """Fold changes that may set some columns only (docs/protocols.md, rules 1.7 and 1.8)."""
        folded = self.fold_rows(pending, self._select(base, pending))
        return pa.concat_tables([subtract_keys(base, pending, self.keys), self._cast(folded.rows)])

    def fold_rows(self, pending: pa.Table, held: pa.Table) -> FoldedRows:
        """Fold changes over the rows that their keys have."""
        fields = [self.base.schema().find_field(name) for name in self.plan.columns]
        rows = BaseRows(fields=fields, keys=held.select(self.keys), read=lambda names: held.select(list(names)))
        rules = read_rules(self.base.properties)
        return fold_changes(pending, rows, self.keys, rules, read_groups(self.base.properties))

    def read_store_changes(self, version: Pair) -> pa.Table:
        """The changes that the change store holds at a pair and that decide its rows."""
        snapshot_id = to_snapshot_id(version.change_snapshot_id)
        if snapshot_id is None:
            return self._read_changes([])
        files = list_lineage_files(self._pin(self.change, snapshot_id))
        is_late = self.plan.sequence_field is not None
        return self._read_changes([file for file in files if is_late or file.sequence_number > version.watermark])

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
            raise build_expired(snapshot_id)
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
    """A filter that leaves out files of base without any of the keys, by each of their columns."""
    where: BooleanExpression = AlwaysTrue()
    for name in names:
        where = And(where, _where_column(keys[name].drop_null(), name))  # no row has a null in its key
    return where


def _where_column(column: pa.ChunkedArray, name: str) -> BooleanExpression:
    """A condition that the column's values meet."""
    first = column[0].as_py() if len(column) else None
    if not isinstance(first, _LITERALS) or isinstance(first, bool | datetime):
        return AlwaysTrue()
    values = pc.unique(column)
    if len(values) <= _MOST_KEYS_IN_FILTER:
        return In(term=Reference(name), literals={literal(value) for value in values.to_pylist()})
    ends = pc.min_max(column).as_py()
    lowest, highest = (literal(ends[end]) for end in ("min", "max"))
    return And(
        GreaterThanOrEqual(term=Reference(name), value=lowest), LessThanOrEqual(term=Reference(name), value=highest)
    )


def to_snapshot_id(text: str | None) -> int | None:
    """The id that an answer has as text."""
    return None if text is None else int(text)


def build_expired(snapshot_id: int) -> Refused:
    """The error for a snapshot that has expired while its rows were read."""
    return Refused(
        f"snapshot {snapshot_id} has expired while its changes were read",
        hint="read again: the error then names the first version that is left",
    )
