"""What a change feed reads: the changes of some commits, and a keyed table's merged rows at a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from firn.protocol.answers.changes import ChangePlan, FeedCommit
from firn.scan.lineage import LineageFile, list_added_files
from firn.scan.reading import ColumnReader, map_files
from firn.scan.stores import Stores, build_expired, to_snapshot_id


@dataclass(frozen=True)
class FeedStores(Stores):
    """The stores of a keyed table, and the plan of a feed of its changes."""

    plan: ChangePlan

    @cached_property
    def appended(self) -> pa.Table:
        """The changes of all commits of the plan; see `read_appended`."""
        return self.read_appended(self.plan.appends)

    def read_appended(self, commits: Sequence[FeedCommit]) -> pa.Table:
        """The changes of these commits: the table's columns, `_op`, row id and sequence number."""
        files = [file for commit in commits for file in self._list_added(int(commit.snapshot_id))]
        return self._read_changes(files)

    def read_changed_keys(self, before: str | None, after: str | None) -> pa.Table:
        """The keys in files of base that differ between two snapshots, also by their deletes."""
        plans = [self._plan_base(to_snapshot_id(snapshot_id), AlwaysTrue()) for snapshot_id in (before, after)]
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
            raise build_expired(snapshot_id) from error


def _identify(task: FileScanTask) -> tuple[object, ...]:
    """A data file with the deletes that apply to it."""
    return task.file.file_path, frozenset(file.file_path for file in task.delete_files)
