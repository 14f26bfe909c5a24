"""Rows in the form in which a store takes them, and the ways in which Spark writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriterV2, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name, split_name
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.stream_writer import SUMMARY_OPTION
from firn.spark.target import SET_COLUMN, Target, load_target
from firn.spark.write import SMALL_BYTES, estimate_bytes, name_set
from firn.table_handle import TableHandle
from optimizer.pipelines.difference import OP, unpack
from optimizer.pipelines.inputs import CHANGE
from optimizer.pipelines.plain_files import raise_conflict
from optimizer.pipelines.snapshots import load_iceberg_table
from optimizer.pipelines.staged_rows import StagedRows, append_files, overwrite_table, write_new
from optimizer.pipelines.store_files import StoreFiles
from optimizer.staged_files import stage_files

log = logging.getLogger(__name__)


class WritableRows(Protocol):
    """What a run writes to one table."""

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Write and commit the rows at once, with these options of Spark's writer; the count, if it was not known.

        Raises Java's errors.
        """

    def stage(self, stack: ExitStack) -> StagedRows:
        """Write the rows to files that no snapshot names, and that Java knows until `stack` closes.

        Raises Java's errors.
        """

    def explain(self) -> None:
        """Raise Refused with a reason in the rows themselves, after Spark has failed to write them, if there is one."""


@dataclass(frozen=True)
class ChangeRows:
    """Changes for the change store of a keyed table, one for each key, as `optimizer.pipelines.difference` has them."""

    changes: DataFrame
    keyed: Target
    explain_keys: Callable[[], None]
    is_counted: bool = True
    """Whether the run has counted the changes already."""
    is_partial: bool = False
    """Whether the changes set the columns of `keyed` only: the table has others."""

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Append the changes."""
        rows, shape, counter = self._shape()
        with silence_failure_logs(rows.sparkSession):
            _add_options(rows.writeTo(self.keyed.change), {**shape, **options}).append()
        return _read(counter)

    def stage(self, stack: ExitStack) -> StagedRows:
        """Write the changes to files for the change store."""
        rows, shape, counter = self._shape()
        spark = rows.sparkSession
        table = load_iceberg_table(spark, (*split_name(self.keyed.name), CHANGE))
        files = stack.enter_context(stage_files(spark, table))
        with silence_failure_logs(spark):
            write_new(files, rows, shape)
        return StagedRows(files, append_files(files), _read(counter))

    def _shape(self) -> tuple[DataFrame, dict[str, str], Observation | None]:
        """The rows as the change store has them, options of Spark's writer, and a counter if they are not counted."""
        changes, counter = (self.changes, None) if self.is_counted else _count(self.changes)
        rows = unpack(changes, self.keyed).withColumn("_source", F.lit(None).cast("string"))
        if self.is_partial:
            rows = self._add_others(rows)
        if estimate_bytes(changes) > SMALL_BYTES:
            return rows, {}, counter
        keys = [F.col(quote_name(key)) for key in self.keyed.key]
        # Otherwise Iceberg shuffles again by partition.
        return rows.repartition(1, *keys), {"distribution-mode": "none"}, counter

    def _add_others(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns that they do not set, and the ids of those that they set."""
        keyed, spark = self.keyed, rows.sparkSession
        schema = load_target(spark, keyed.name)
        set_ids = F.lit(name_set(spark, schema, [name for name in keyed.columns if name not in keyed.key]))
        others = {field.name: F.lit(None).cast(field.dataType) for field in schema.fields if field not in keyed.fields}
        return rows.withColumns({**others, SET_COLUMN: set_ids}).select(
            *map(quote_name, spark.table(keyed.change).columns)
        )

    def explain(self) -> None:
        """Raise Refused if keys are null or come twice."""
        self.explain_keys()


@dataclass(frozen=True)
class FewRows:
    """Few changes of a keyed table, which this process writes. `rows` have the table's columns and `_op`."""

    rows: pa.Table
    keyed: Target
    handle: TableHandle
    files: StoreFiles
    spark: SparkSession

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Append the changes, in Spark if PyArrow does not write files of this table. Raises errors of both."""
        written = self.files.write_changes(self.handle, self.rows)
        if isinstance(written, str):
            log.info("Spark writes the changes of %s: %s", self.keyed.name, written)
            return self._in_spark().commit(options)
        written.append({key.removeprefix(SUMMARY_OPTION): text for key, text in options.items()})
        return None

    def stage(self, stack: ExitStack) -> StagedRows:
        """Write the changes to files for the change store, in Spark."""
        return self._in_spark().stage(stack)

    def _in_spark(self) -> ChangeRows:
        frame = self.spark.createDataFrame(self.rows)
        row = F.struct(*map(quote_name, self.keyed.columns)).alias("row")
        return ChangeRows(frame.select(OP, row), self.keyed, self.explain)

    def explain(self) -> None:
        """The keys have been checked."""


@dataclass(frozen=True)
class PlainRows:
    """All rows of a plain table, or rows that it gets.

    `since` is the snapshot that the run has read: the commit is refused if somebody has changed the table since.
    """

    rows: DataFrame
    table: str
    since: int | None = None
    is_append: bool = False

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Replace all rows of the table, or append. Raises TargetChanged, and Java's errors."""
        rows, counter = _count(self.rows)
        writer = _add_options(rows.writeTo(self.table), {**options, **self._write_checks()})
        try:
            with silence_failure_logs(rows.sparkSession):
                writer.append() if self.is_append else writer.overwrite(F.lit(True))
        except Exception as error:  # Java throws many types of errors
            raise_conflict(error)
            raise
        return _read(counter)

    def stage(self, stack: ExitStack) -> StagedRows:
        """Write the rows to files for the table."""
        rows, counter = _count(self.rows)
        spark = rows.sparkSession
        files = stack.enter_context(stage_files(spark, load_iceberg_table(spark, split_name(self.table))))
        with silence_failure_logs(spark):
            write_new(files, rows)
        begin = append_files(files) if self.is_append else overwrite_table(files, self.since)
        return StagedRows(files, begin, _read(counter))

    def _write_checks(self) -> Mapping[str, str]:
        if self.since is None:
            return {}
        return {"isolation-level": "serializable", "validate-from-snapshot-id": str(self.since)}

    def explain(self) -> None:
        """Any rows are right."""


def _add_options(writer: DataFrameWriterV2, options: Mapping[str, str]) -> DataFrameWriterV2:
    for key, text in options.items():
        writer = writer.option(key, text)
    return writer


def _count(frame: DataFrame) -> tuple[DataFrame, Observation]:
    """The frame, and an observation that has the number of its rows when Spark has written it."""
    counter = Observation()
    return frame.observe(counter, F.count(F.lit(1)).alias("rows")), counter


def _read(counter: Observation | None) -> int | None:
    return None if counter is None else int(counter.get["rows"])
