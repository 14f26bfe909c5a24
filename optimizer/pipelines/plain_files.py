"""Some data files of a plain table replaced by others in one commit: no reader sees the old rows and the new ones.

The commit is checked against all that was committed after the snapshot from which the rows were computed. Without that,
a file that a compaction has copied in between would stay, and its rows would be in the table twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.errors import is_uncertain, java_causes, reason
from firn.spark.java import iterate
from firn.spark.stream_writer import SUMMARY_OPTION
from optimizer.errors import Refused
from optimizer.pipelines.snapshots import load_iceberg_table, read_snapshot
from optimizer.staged_files import StagedFiles, stage_files

FILE = "_file"
LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Of tables of version 3: a row that is written again keeps both, so that it is no change for readers of changes."""
_CONFLICT = "org.apache.iceberg.exceptions.ValidationException"


class TargetChanged(Refused):
    """Somebody has committed to the table since the run read it; nothing was committed. The run may be repeated."""


@dataclass(frozen=True)
class PlainSnapshot:
    """A plain table, as Iceberg's Java knows it, at one snapshot."""

    spark: SparkSession
    parts: Sequence[str]
    table: Any
    snapshot_id: int

    @property
    def has_lineage(self) -> bool:
        """Whether its rows have ids."""
        return bool(self._java.TableUtil.supportsRowLineage(self.table))

    @property
    def columns(self) -> list[str]:
        """The columns of now, in order."""
        return [field.name() for field in self.table.schema().columns()]

    def read(self) -> DataFrame:
        """The rows, with the columns of now and their files as `_file`."""
        return read_snapshot(self.spark, self.parts, str(self.snapshot_id), more=(FILE,))

    def count_files(self) -> int:
        """The data files of the snapshot, as its summary counts them."""
        return int(dict(self.table.snapshot(self.snapshot_id).summary()).get("total-data-files", 0))

    def find_tasks(self, places: Collection[str]) -> list[Any]:
        """The scan tasks of the data files at these places, with their deletes."""
        scan, tasks = self.table.newScan().useSnapshot(self.snapshot_id).planFiles(), []
        try:
            tasks = [task for task in iterate(scan) if task.file().location() in places]
        finally:
            scan.close()
        if len({task.file().location() for task in tasks}) < len(set(places)):
            raise AssertionError(f"{len(places)} files were read, and the snapshot has {len(tasks)} of them")
        return tasks

    @contextmanager
    def stage(self, tasks: Collection[Any]) -> Iterator[Replacement]:
        """New files for the table, instead of those of the tasks."""
        with stage_files(self.spark, self.table) as files:
            yield Replacement(self, files, tasks)

    @property
    def _java(self) -> Any:
        return self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]  # a classic session has a JVM


@dataclass(frozen=True)
class Replacement:
    """Files that replace those of `tasks` with one commit."""

    snapshot: PlainSnapshot
    files: StagedFiles
    tasks: Collection[Any]

    def read_old(self) -> DataFrame:
        """The rows of the old files, with their ids if they have any. Only if there are old files."""
        more = LINEAGE if self.snapshot.has_lineage else ()
        return self.files.read(self.tasks).select(*map(quote_name, self.snapshot.columns), *more)

    def write(self, rows: DataFrame) -> None:
        """Write the rows, which have the columns of `read_old`."""
        self.files.write(rows, {"fanout-enabled": "true"})  # rows come in no order of partitions

    def begin(self, table: Any) -> Any:
        """The change of the table, or in a transaction of it, that replaces the files, if it is committed."""
        change = table.newOverwrite()
        for task in self.tasks:
            change.deleteFile(task.file())
        for file in self.files.list_new():
            change.addFile(file)
        change.validateFromSnapshot(self.snapshot.snapshot_id)
        change.conflictDetectionFilter(self.files.iceberg.expressions.Expressions.alwaysTrue())
        change.validateNoConflictingData()
        change.validateNoConflictingDeletes()
        return change

    def commit(self, options: Mapping[str, str]) -> None:
        """Replace the old files by the new ones, with the entries of the summary among `options`.

        Raises TargetChanged if somebody else has changed rows of the table, or has written a file of it again. Raises
        Java's errors; then the new files stay, and the server removes them as orphans if no snapshot names them.
        """
        change = self.begin(self.snapshot.table)
        for key, value in options.items():
            if key.startswith(SUMMARY_OPTION):
                change.set(key.removeprefix(SUMMARY_OPTION), value)
        try:
            change.commit()
        except Exception as error:  # Java throws many types of errors
            if is_conflict(error):
                # Only here is it certain that no snapshot names the files: a repeated request that is refused for an
                # ended token, for example, may have been applied before.
                self.files.discard()
            raise_conflict(error)
            raise


def open_plain(spark: SparkSession, parts: Sequence[str]) -> PlainSnapshot:
    """The table of these parts of a name at its head, which is a snapshot."""
    table = load_iceberg_table(spark, parts)
    table.refresh()
    return PlainSnapshot(spark, parts, table, int(table.currentSnapshot().snapshotId()))


def is_conflict(error: BaseException) -> bool:
    """Whether Iceberg has refused a commit because of another one, before it sent anything that was applied."""
    return any(name == _CONFLICT for name, _ in java_causes(error)) and not is_uncertain(error)


def raise_conflict(error: BaseException) -> None:
    """Raise TargetChanged if Iceberg has refused a commit because of another one."""
    if is_conflict(error):
        raise TargetChanged(f"somebody has changed the table since the run read it: {reason(error)}") from error


def add_lineage(rows: DataFrame, snapshot: PlainSnapshot) -> DataFrame:
    """New rows with empty ids, which the commit gives them."""
    if not snapshot.has_lineage:
        return rows
    return rows.withColumns({column: F.lit(None).cast("bigint") for column in LINEAGE})
