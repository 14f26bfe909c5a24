"""Rows in the form in which a store takes them, and the ways in which Spark writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, DataFrameWriterV2, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.target import Target
from firn.spark.write import SMALL_BYTES, estimate_bytes
from optimizer.pipelines.difference import unpack
from optimizer.pipelines.plain_files import raise_conflict


class WritableRows(Protocol):
    """What a run writes to one table."""

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Write and commit the rows at once, with these options of Spark's writer; the count, if it was not known.

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

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Append the changes."""
        changes, counter = (self.changes, None) if self.is_counted else _count(self.changes)
        is_small = estimate_bytes(changes) <= SMALL_BYTES
        keys = [F.col(quote_name(key)) for key in self.keyed.key]
        rows = unpack(changes, self.keyed).withColumn("_source", F.lit(None).cast("string"))
        writer = (rows.repartition(1, *keys) if is_small else rows).writeTo(self.keyed.change)
        if is_small:  # otherwise Iceberg shuffles again by partition
            writer = writer.option("distribution-mode", "none")
        with silence_failure_logs(changes.sparkSession):
            _add_options(writer, options).append()
        return _read(counter)

    def explain(self) -> None:
        """Raise Refused if keys are null or come twice."""
        self.explain_keys()


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
