"""Rows that are written to a table and looked at before any commit names their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from optimizer.spark import JobSession
from optimizer.staged_files import StagedFiles, stage_files

_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Columns that a rewrite hands on. Null in a new row, which means that the commit gives them."""


@dataclass(frozen=True)
class UncommittedRows:
    """Rows in files that no snapshot names until `append`."""

    files: StagedFiles

    def write(self, rows: DataFrame) -> None:
        """Write rows that have the table's columns; what ends before its end leaves no file that is listed here."""
        if self.files.iceberg.TableUtil.supportsRowLineage(self.files.table):
            rows = rows.withColumns({column: F.lit(None).cast("bigint") for column in _LINEAGE})
        self.files.write(rows)

    def read(self) -> DataFrame:
        """All that was written, out of the files."""
        tasks = [*self._build_tasks()]
        spark = self.files.spark
        if not tasks:  # which Iceberg takes for a name that it does not know
            return spark.read.format("iceberg").load(self.files.name).limit(0)
        return self.files.read(tasks)

    def append(self, marks: Mapping[str, str]) -> None:
        """Commit the files, in a snapshot that says this of itself."""
        append = self.files.table.newAppend()
        for file in self.files.list_new():
            append.appendFile(file)
        for key, value in marks.items():
            append.set(key, value)
        append.commit()

    def discard(self) -> None:
        """Delete the files. The caller must not have sent a commit with them."""
        self.files.discard()

    def _build_tasks(self) -> Iterator[Any]:
        iceberg, table = self.files.iceberg, self.files.table
        schema, specs = iceberg.SchemaParser.toJson(table.schema()), table.specs()
        every = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        gateway: Any = self.files.spark.sparkContext._gateway
        no_deletes = gateway.new_array(iceberg.DeleteFile, 0)
        for file in self.files.list_new():
            spec = iceberg.PartitionSpecParser.toJson(specs.get(file.specId()))
            yield iceberg.BaseFileScanTask(file, no_deletes, schema, spec, every)


@contextmanager
def stage_rows(session: JobSession, parts: Sequence[str]) -> Iterator[UncommittedRows]:
    """Rows for a table. At the end Java forgets their files: they are the table's by then, or nobody's."""
    with stage_files(session.spark, session.table(parts)) as files:
        yield UncommittedRows(files)
