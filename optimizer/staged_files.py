"""Files that Spark has written for a table and that no snapshot names yet.

Spark's own append writes and commits in one. Iceberg's rewrites do not: they write files under a name of their own,
which stands for a table that reads and writes nothing else. So do these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from firn.spark.java import call_static, iterate

_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"


@dataclass(frozen=True)
class StagedFiles:
    """Files of an Iceberg table that only this process knows of, under a `name` that Spark takes for a path."""

    spark: SparkSession
    table: Any
    name: str

    def write(self, rows: DataFrame, options: Mapping[str, str] | None = None) -> None:
        """Write rows that have the table's columns; what ends before its end leaves no file that is listed here.

        `options` are those of Iceberg's writer.
        """
        rows.write.format("iceberg").mode("append").options(**(options or {})).save(self.name)

    def read(self, tasks: Iterable[Any]) -> DataFrame:
        """The rows that these scan tasks of the table read; at least one task."""
        staged: Any = self.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # a classic session has a JVM
        for task in tasks:
            staged.add(task)
        self.iceberg.spark.ScanTaskSetManager.get().stageTasks(self.table, self.name, staged)
        return self.spark.read.format("iceberg").load(self.name)

    def list_new(self) -> Iterator[Any]:
        """The files that were written."""
        return iterate(self.iceberg.spark.FileRewriteCoordinator.get().fetchNewFiles(self.table, self.name))

    def discard(self) -> None:
        """Delete the files. It must be certain that no commit names them."""
        places: Any = self.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for file in self.list_new():
            places.add(file.location())
        self.iceberg.CatalogUtil.deleteFiles(self.table.io(), places, "data", True)

    @property
    def iceberg(self) -> Any:
        """Iceberg's Java packages."""
        return self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]


@contextmanager
def stage_files(spark: SparkSession, table: Any) -> Iterator[StagedFiles]:
    """Files for a table. At the end Java forgets them: they are the table's by then, or nobody's."""
    staged = StagedFiles(spark, table, str(uuid4()))
    cache = call_static(spark, _TABLE_CACHE, "get")
    cache.add(staged.name, table)
    try:
        yield staged
    finally:
        cache.remove(staged.name)
        staged.iceberg.spark.ScanTaskSetManager.get().removeTasks(table, staged.name)
        staged.iceberg.spark.FileRewriteCoordinator.get().clearRewrite(table, staged.name)
