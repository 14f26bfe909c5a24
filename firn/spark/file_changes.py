"""The net changes of a table without a primary key between two snapshots, as a frame (docs/changes.md#plain-tables).

The server lists the files that one of the two snapshots does not have, or has with other deletes. Only these are read.
Rows that both sides have cancel each other: first by their identity, which needs no comparison of values, and then by
their values. The second step alone would be right; the first makes it cheap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.names import split_name
from firn.protocol.answers.changes import FileChangesOut, ReadFile
from firn.protocol.changes import Images
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.comparing import make_comparable
from firn.spark.java import call_static

OWN = ("_change_type", "_version", "_committed_at")
_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""A row that a rewrite has copied keeps both."""
_PLACE = ("_file", "_pos")


def read_file_changes(spark: SparkSession, table: str, plan: FileChangesOut, images: Images) -> DataFrame:
    """Read the rows that only one of two snapshots has: `delete` for those of the first, `insert` for the others.

    A table without a key has no updates: a changed row is a delete and an insert. A row that came twice is there twice.
    Compactions and other rewrites do not show. `_version` is the snapshot `until`. With `images="both"` the rows are
    the structs `_before` and `_after`, one of which is null.

    The frame reads the same files with each action, until they are deleted: after the expiry of their snapshots.
    """
    net = _read_net(spark, table, plan)
    kind = F.when(F.col("n") < 0, "delete").otherwise("insert").alias(OWN[0])
    version = F.lit(plan.until.snapshot_id).cast("bigint").alias(OWN[1])
    at = None if plan.until.committed_at is None else plan.until.committed_at.isoformat()
    own = [kind, version, F.lit(at).cast("timestamp").alias(OWN[2])]
    if images is Images.AFTER:
        return net.select(*own, *(F.col("row").getField(name).alias(name) for name in plan.columns))
    is_before = F.col("n") < 0
    before, after = F.when(is_before, F.col("row")), F.when(~is_before, F.col("row"))
    return net.select(*own, before.alias("_before"), after.alias("_after"))


def read_changed_rows(spark: SparkSession, table: str, plan: FileChangesOut) -> tuple[DataFrame, DataFrame]:
    """Read the rows that only the first or only the second of two snapshots has, each as often.

    Rows are compared, and read, by `plan.columns` alone: of a plan with some of the table's columns, a change of
    another column is no change.
    """
    net = _read_net(spark, table, plan)
    columns = [F.col("row").getField(name).alias(name) for name in plan.columns]
    return net.where("n < 0").select(*columns), net.where("n > 0").select(*columns)


def _read_net(spark: SparkSession, table: str, plan: FileChangesOut) -> DataFrame:
    return _subtract(*_ChangedFiles(spark, table, plan).read_sides())


def _subtract(before: DataFrame, after: DataFrame) -> DataFrame:
    """The structs `row` of which one side has more than the other: each as often, with the sign of the difference."""
    signed = before.select("row", F.lit(-1).alias("sign")).unionAll(after.select("row", F.lit(1).alias("sign")))
    value = make_comparable(F.col("row"), signed.schema["row"].dataType).alias("value")
    sums = signed.groupBy(value).agg(F.first("row").alias("row"), F.sum("sign").alias("n")).where(F.col("n") != 0)
    return sums.select("row", "n", F.explode(F.sequence(F.lit(1), F.abs("n")))).select("row", "n")


@dataclass(frozen=True)
class _ChangedFiles:
    """Frames of the files of one plan."""

    spark: SparkSession
    table: str
    plan: FileChangesOut

    def read_sides(self) -> tuple[DataFrame, DataFrame]:
        """The rows of both sides as structs `row`, without most of those that both have."""
        return self._read_by_lineage() if self._has_lineage else self._read_by_place()

    def _read_by_lineage(self) -> tuple[DataFrame, DataFrame]:
        before = self._read([change.before for change in self.plan.files], _LINEAGE)
        after = self._read([change.after for change in self.plan.files], _LINEAGE)
        # Rows without an id, from before the table's upgrade to version 3, match nothing here.
        return _leave_out(before, after, _LINEAGE), _leave_out(after, before, _LINEAGE)

    def _read_by_place(self) -> tuple[DataFrame, DataFrame]:
        """Of files with other deletes, only the rows that are deleted on one side."""
        removed = self._read([change.before for change in self.plan.files if change.after is None], ())
        added = self._read([change.after for change in self.plan.files if change.before is None], ())
        both = [change for change in self.plan.files if change.before is not None and change.after is not None]
        if not both:
            return removed, added
        gone, back = (
            self._read(files, _PLACE, deleted=True)
            for files in ([change.after for change in both], [change.before for change in both])
        )
        return removed.unionAll(_leave_out(gone, back, _PLACE)), added.unionAll(_leave_out(back, gone, _PLACE))

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
    def _has_lineage(self) -> bool:
        return bool(self._java.TableUtil.supportsRowLineage(self._iceberg_table))

    def _read(self, files: Iterable[ReadFile | None], more: tuple[str, ...], *, deleted: bool = False) -> DataFrame:
        """The rows of these files as structs `row`; with `deleted`, those that their deletes delete."""
        read = [file for file in files if file is not None and (file.deletes or not deleted)]
        columns = [F.struct(*(F.col(quote_name(name)) for name in self.plan.columns)).alias("row"), *map(F.col, more)]
        if not read:
            return self._read_nothing(more)
        frame = self.spark.read.format("iceberg").load(self._stage(read))
        return frame.where(F.col("_deleted")).select(*columns) if deleted else frame.select(*columns)

    def _read_nothing(self, more: tuple[str, ...]) -> DataFrame:
        table = self.spark.table(format_sql_name(split_name(self.table)))
        types = {name: "string" if name == "_file" else "bigint" for name in more}
        nothing: list[Column] = [F.lit(None).cast(kind).alias(name) for name, kind in types.items()]
        row = F.struct(*(F.col(quote_name(name)) for name in self.plan.columns)).alias("row")
        return table.where(F.lit(False)).select(row, *nothing)

    def _stage(self, files: list[ReadFile]) -> str:
        """Hand the files to Iceberg as the tasks of a scan; the name under which its source reads them.

        Iceberg applies a filter on `_file` to rows, after it has planned all files. The name is a digest of the files,
        so that frames of the same changes share their tasks, which stay in the driver until it ends.
        """
        deletes = [self._parse(content) for content in self.plan.delete_files]
        text = json.dumps([self.table, self.plan.delete_files, [file.model_dump(mode="json") for file in files]])
        name = sha256(text.encode()).hexdigest()
        tasks: Any = self.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for file in files:
            tasks.add(self._build_task(file, deletes))
        call_static(self.spark, _TABLE_CACHE, "get").add(name, self._iceberg_table)
        self._java.spark.ScanTaskSetManager.get().stageTasks(self._iceberg_table, name, tasks)
        return name

    def _build_task(self, file: ReadFile, deletes: list[Any]) -> Any:
        java, gateway = self._java, self.spark.sparkContext._gateway
        applied: Any = gateway.new_array(java.DeleteFile, len(file.deletes))  # type: ignore[union-attr]
        for index, number in enumerate(file.deletes):
            applied[index] = deletes[number]
        data, table = self._parse(file.data_file), self._iceberg_table
        spec = java.PartitionSpecParser.toJson(table.specs().get(data.specId()))
        everything = java.expressions.ResidualEvaluator.unpartitioned(java.expressions.Expressions.alwaysTrue())
        return java.BaseFileScanTask(data, applied, java.SchemaParser.toJson(table.schema()), spec, everything)

    def _parse(self, content: dict[str, Any]) -> Any:
        """A file as Iceberg knows it, from its form in scan planning."""
        node = self._java.util.JsonUtil.mapper().readTree(json.dumps(content))
        return self._java.ContentFileParser.fromJson(node, self._iceberg_table.specs())


def _leave_out(rows: DataFrame, others: DataFrame, identity: tuple[str, ...]) -> DataFrame:
    """The structs `row` of rows whose identity the others do not have."""
    return rows.join(others.select(*identity), [*identity], "left_anti").select("row")
