"""Rows that are written to a table and looked at before any commit names their files.

Spark's own append writes and commits in one. Iceberg's rewrites do not: they write files under a name of their own,
which stands for a table that reads and writes nothing else. So do these; until `append` the files are in no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.spark.java import call_static, iterate
from optimizer.spark import JobSession

_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Columns that a rewrite hands on. Null in a new row, which means that the commit gives them."""


@dataclass(frozen=True)
class UncommittedRows:
    """Rows in files that only this process knows of, under a `name` that Iceberg's source takes for a path."""

    session: JobSession
    table: Any
    name: str

    def write(self, rows: DataFrame) -> None:
        """Write rows that have the table's columns; what ends before its end leaves no file that is listed here."""
        if self.session.jvm.org.apache.iceberg.TableUtil.supportsRowLineage(self.table):
            rows = rows.withColumns({column: F.lit(None).cast("bigint") for column in _LINEAGE})
        rows.write.format("iceberg").mode("append").save(self.name)

    def read(self) -> DataFrame:
        """All that was written, out of the files."""
        iceberg, tasks = self.session.jvm.org.apache.iceberg, self.session.jvm.java.util.ArrayList()
        schema, specs = iceberg.SchemaParser.toJson(self.table.schema()), self.table.specs()
        every = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        no_deletes = self.session.spark.sparkContext._gateway.new_array(iceberg.DeleteFile, 0)  # type: ignore[union-attr]
        for file in iterate(self._files()):
            spec = iceberg.PartitionSpecParser.toJson(specs.get(file.specId()))
            tasks.add(iceberg.BaseFileScanTask(file, no_deletes, schema, spec, every))
        if tasks.isEmpty():  # which Iceberg takes for a name that it does not know
            return self.session.spark.read.format("iceberg").load(self.name).limit(0)
        iceberg.spark.ScanTaskSetManager.get().stageTasks(self.table, self.name, tasks)
        return self.session.spark.read.format("iceberg").load(self.name)

    def append(self, marks: Mapping[str, str]) -> None:
        """Commit the files, in a snapshot that says this of itself."""
        append = self.table.newAppend()
        for file in iterate(self._files()):
            append.appendFile(file)
        for key, value in marks.items():
            append.set(key, value)
        append.commit()

    def discard(self) -> None:
        """Delete the files. The caller must not have sent a commit with them."""
        places = self.session.jvm.java.util.ArrayList()
        for file in iterate(self._files()):
            places.add(file.location())
        self.session.jvm.org.apache.iceberg.CatalogUtil.deleteFiles(self.table.io(), places, "data", True)

    def _files(self) -> Any:
        return self.session.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get().fetchNewFiles(
            self.table, self.name
        )


@contextmanager
def stage_rows(session: JobSession, parts: Sequence[str]) -> Iterator[UncommittedRows]:
    """Rows for a table. At the end Java forgets them: their files are the table's by then, or nobody's."""
    iceberg, staged = session.jvm.org.apache.iceberg.spark, UncommittedRows(session, session.table(parts), str(uuid4()))
    cache = call_static(session.spark, _TABLE_CACHE, "get")
    cache.add(staged.name, staged.table)
    try:
        yield staged
    finally:
        cache.remove(staged.name)
        iceberg.ScanTaskSetManager.get().removeTasks(staged.table, staged.name)
        iceberg.FileRewriteCoordinator.get().clearRewrite(staged.table, staged.name)
