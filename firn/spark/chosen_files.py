"""Chosen files of an Iceberg table as a frame: their rows, or the rows that their deletes delete.

Iceberg applies a filter on `_file` to rows, after it has planned all files of the table. So the files are handed to it
as the tasks of a scan, under a name of their own, as its own rewrites do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.names import split_name
from firn.protocol.answers.changes import ReadFile
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.java import call_static

_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_READ_AS_VERSION = 2
"""Later versions have ids of rows. Iceberg's source then reads chosen files with these ids, and without `_deleted`."""


@dataclass(frozen=True)
class ChosenFiles:
    """Reads files of one table. `delete_files` are those that the files' numbers in `ReadFile.deletes` stand for."""

    spark: SparkSession
    table: str
    delete_files: Sequence[dict[str, Any]]

    def read(self, files: Sequence[ReadFile], columns: Sequence[str]) -> DataFrame:
        """The rows of these files, without those that their deletes delete, as structs `row` of the columns."""
        return self._read(files).select(_struct(columns)) if files else self._read_nothing(columns)

    def read_deleted(self, files: Sequence[ReadFile], columns: Sequence[str]) -> DataFrame:
        """The rows that the deletes of these files delete, as structs `row`. `can_read_deleted` has to be true."""
        with_deletes = [file for file in files if file.deletes]
        if not with_deletes:
            return self._read_nothing(columns)
        return self._read(with_deletes).where(F.col("_deleted")).select(_struct(columns))

    @property
    def can_read_deleted(self) -> bool:
        """Whether Iceberg can read the deleted rows; not if version 2 does not know the types of the columns."""
        return self._plain_table is not None

    @cached_property
    def _java(self) -> Any:
        return self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]  # a classic session has a JVM

    @cached_property
    def _iceberg_table(self) -> Any:
        name = format_sql_name(split_name(self.table))
        loaded = self._java.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, name)
        loaded.refresh()  # the session may know an older state, without the newest columns
        return loaded

    @cached_property
    def _plain_table(self) -> Any:
        """The table as one without ids of rows: in version 2, without snapshots, in memory. None if none can be."""
        table = self._iceberg_table
        if not self._java.TableUtil.supportsRowLineage(table):
            return table
        try:
            metadata = self._java.TableMetadataParser.fromJson(json.dumps(self._describe()))
        except Py4JJavaError:
            return None
        return self._java.BaseTable(self._java.StaticTableOperations(metadata, table.io()), table.name())

    def _describe(self) -> dict[str, Any]:
        """Metadata of version 2 with the table's columns, partition specs and properties, such as its name mapping."""
        current = self._iceberg_table.operations().current()
        specs = [json.loads(self._java.PartitionSpecParser.toJson(spec)) for spec in current.specs()]
        return {
            "format-version": _READ_AS_VERSION,
            "table-uuid": current.uuid(),
            "location": current.location(),
            "last-sequence-number": current.lastSequenceNumber(),
            "last-updated-ms": current.lastUpdatedMillis(),
            "last-column-id": current.lastColumnId(),
            "current-schema-id": current.currentSchemaId(),
            "schemas": [json.loads(self._java.SchemaParser.toJson(current.schema()))],
            "default-spec-id": current.defaultSpecId(),
            "partition-specs": specs,
            "last-partition-id": current.lastAssignedPartitionId(),
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": dict(current.properties()),
        }

    def _read(self, files: Sequence[ReadFile]) -> DataFrame:
        return self.spark.read.format("iceberg").load(self._stage(files))

    def _read_nothing(self, columns: Sequence[str]) -> DataFrame:
        nothing = self.spark.table(format_sql_name(split_name(self.table))).where(F.lit(False))
        return nothing.select(_struct(columns))

    def _stage(self, files: Sequence[ReadFile]) -> str:
        """Hand the files to Iceberg as the tasks of a scan; the name under which its source reads them.

        The name is a digest of the files, so that frames of the same files share their tasks, which stay in the driver
        until it ends.
        """
        deletes = [self._parse(content) for content in self.delete_files]
        text = json.dumps([self.table, self.delete_files, [file.model_dump(mode="json") for file in files]])
        name = sha256(text.encode()).hexdigest()
        tasks: Any = self.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for file in files:
            tasks.add(self._build_task(file, deletes))
        table = self._plain_table or self._iceberg_table
        call_static(self.spark, _TABLE_CACHE, "get").add(name, table)
        self._java.spark.ScanTaskSetManager.get().stageTasks(table, name, tasks)
        return name

    def _build_task(self, file: ReadFile, deletes: list[Any]) -> Any:
        builder = self._builder
        applied: Any = self.spark.sparkContext._gateway.new_array(builder.delete_file, len(file.deletes))  # type: ignore[union-attr]
        for index, number in enumerate(file.deletes):
            applied[index] = deletes[number]
        data = self._parse(file.data_file)
        spec = builder.specs[int(file.data_file["spec-id"])]
        return builder.file_scan_task(data, applied, builder.schema, spec, builder.residuals)

    @cached_property
    def _builder(self) -> _TaskBuilder:
        java, table = self._java, self._iceberg_table
        everything = java.expressions.Expressions.alwaysTrue()
        specs = table.specs()
        return _TaskBuilder(
            delete_file=java.DeleteFile,
            file_scan_task=java.BaseFileScanTask,
            parse_file=java.ContentFileParser.fromJson,
            read_tree=java.util.JsonUtil.mapper().readTree,
            java_specs=specs,
            specs={int(number): java.PartitionSpecParser.toJson(specs.get(number)) for number in specs},
            schema=java.SchemaParser.toJson(table.schema()),
            residuals=java.expressions.ResidualEvaluator.unpartitioned(everything),
        )

    def _parse(self, content: dict[str, Any]) -> Any:
        """A file as Iceberg knows it, from its form in scan planning."""
        builder = self._builder
        return builder.parse_file(builder.read_tree(json.dumps(content)), builder.java_specs)


@dataclass(frozen=True)
class _TaskBuilder:
    """What the tasks of all files share, looked up in Java once: each look takes a round trip or several."""

    delete_file: Any
    file_scan_task: Any
    parse_file: Any
    read_tree: Any
    java_specs: Any
    specs: Mapping[int, str]
    schema: str
    residuals: Any


def _struct(columns: Sequence[str]) -> Column:
    return F.struct(*(F.col(quote_name(name)) for name in columns)).alias("row")
