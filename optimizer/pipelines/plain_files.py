"""Some data files of a plain table replaced by others in one commit: no reader sees the old rows and the new ones.

The commit is checked against all that was committed after the snapshot from which the rows were computed. Without that,
a file that a compaction has copied in between would stay, and its rows would be in the table twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.errors import is_refusal, is_uncertain, java_causes, reason
from firn.spark.java import call_static, iterate
from firn.spark.stream_writer import SUMMARY_OPTION
from optimizer.errors import Refused
from optimizer.pipelines.snapshots import load_iceberg_table, read_snapshot

FILE = "_file"
LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Of tables of version 3: a row that is written again keeps both, so that it is no change for readers of changes."""
_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
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
    def stage(self, tasks: Collection[Any]) -> Iterator[StagedFiles]:
        """New files for the table. At the end Java forgets them: they are the table's by then, or nobody's."""
        staged = StagedFiles(self, str(uuid4()), tasks)
        cache = call_static(self.spark, _TABLE_CACHE, "get")
        cache.add(staged.name, self.table)
        try:
            yield staged
        finally:
            cache.remove(staged.name)
            self._java.spark.ScanTaskSetManager.get().removeTasks(self.table, staged.name)
            self._java.spark.FileRewriteCoordinator.get().clearRewrite(self.table, staged.name)

    @property
    def _java(self) -> Any:
        return self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]  # a classic session has a JVM


@dataclass(frozen=True)
class StagedFiles:
    """Files that replace those of `tasks`; no snapshot names them yet."""

    snapshot: PlainSnapshot
    name: str
    tasks: Collection[Any]

    def read_old(self) -> DataFrame:
        """The rows of the old files, with their ids if they have any. Only if there are old files."""
        spark, java = self.snapshot.spark, self.snapshot._java  # noqa: SLF001 -- one thing in two classes
        tasks: Any = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for task in self.tasks:
            tasks.add(task)
        java.spark.ScanTaskSetManager.get().stageTasks(self.snapshot.table, self.name, tasks)
        more = LINEAGE if self.snapshot.has_lineage else ()
        frame = spark.read.format("iceberg").load(self.name)
        return frame.select(*map(quote_name, self.snapshot.columns), *more)

    def write(self, rows: DataFrame) -> None:
        """Write the rows, which have the columns of `read_old`."""
        rows.write.format("iceberg").mode("append").option("fanout-enabled", "true").save(self.name)

    def commit(self, options: Mapping[str, str]) -> None:
        """Replace the old files by the new ones, with the entries of the summary among `options`.

        Raises TargetChanged if somebody else has changed rows of the table, or has written a file of it again. Raises
        Java's errors.
        """
        java, change = self.snapshot._java, self.snapshot.table.newOverwrite()  # noqa: SLF001 -- as above
        for task in self.tasks:
            change.deleteFile(task.file())
        for file in iterate(self._list_new()):
            change.addFile(file)
        change.validateFromSnapshot(self.snapshot.snapshot_id)
        change.conflictDetectionFilter(java.expressions.Expressions.alwaysTrue())
        change.validateNoConflictingData()
        change.validateNoConflictingDeletes()
        for key, value in options.items():
            if key.startswith(SUMMARY_OPTION):
                change.set(key.removeprefix(SUMMARY_OPTION), value)
        try:
            change.commit()
        except Exception as error:  # Java throws many types of errors
            if is_refusal(error) and not is_uncertain(error):
                self._discard()
            raise_conflict(error)
            raise

    def _discard(self) -> None:
        places: Any = self.snapshot.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for file in iterate(self._list_new()):
            places.add(file.location())
        self.snapshot._java.CatalogUtil.deleteFiles(self.snapshot.table.io(), places, "data", True)  # noqa: SLF001

    def _list_new(self) -> Any:
        coordinator = self.snapshot._java.spark.FileRewriteCoordinator.get()  # noqa: SLF001 -- as above
        return coordinator.fetchNewFiles(self.snapshot.table, self.name)


def open_plain(spark: SparkSession, parts: Sequence[str]) -> PlainSnapshot:
    """The table of these parts of a name at its head, which is a snapshot."""
    table = load_iceberg_table(spark, parts)
    table.refresh()
    return PlainSnapshot(spark, parts, table, int(table.currentSnapshot().snapshotId()))


def raise_conflict(error: BaseException) -> None:
    """Raise TargetChanged if Iceberg has refused a commit because of another one."""
    if any(name == _CONFLICT for name, _ in java_causes(error)) and not is_uncertain(error):
        raise TargetChanged(f"somebody has changed the table since the run read it: {reason(error)}") from error


def add_lineage(rows: DataFrame, snapshot: PlainSnapshot) -> DataFrame:
    """New rows with empty ids, which the commit gives them."""
    if not snapshot.has_lineage:
        return rows
    return rows.withColumns({column: F.lit(None).cast("bigint") for column in LINEAGE})
