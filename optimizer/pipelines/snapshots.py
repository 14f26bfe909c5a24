"""Snapshots of plain tables, read with the columns that the table has now.

Spark reads a snapshot by name with the schema that it was written with. A column that came later is missing there, and
a renamed one has its old name; ids tell which is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructType

from firn.protocol.names import format_sql_name, quote_name
from optimizer.errors import Refused

_MOST_COMMITS = 1_000
"""The commits that a run counts one by one."""


def read_snapshot(
    spark: SparkSession, parts: Sequence[str], snapshot: str | None, more: Sequence[str] = ()
) -> DataFrame:
    """The rows of a snapshot of the table `parts`, none without one. Raises Refused if its columns cannot be read.

    `more` are columns that Iceberg has for each row, such as `_file`.
    The session has to see the table with this snapshot.
    """
    name, table = format_sql_name(parts), load_iceberg_table(spark, parts)
    if snapshot is None:
        return spark.table(name).where(F.lit(False))
    frame, old = spark.read.option("versionAsOf", snapshot).table(name), _schema_of(table, snapshot)
    if table.schema().sameSchema(old):
        return frame.select("*", *more) if more else frame
    now = spark.table(name).schema
    return frame.select(*(_read_column(field, old, name, now) for field in table.schema().columns()), *more)


def _read_column(field: Any, old: Any, table: str, now: StructType) -> Column:
    """A column of `now` in the rows of a snapshot with the schema `old`."""
    name, kind = field.name(), field.type()
    before = old.findField(field.fieldId())
    if before is None:
        if field.initialDefault() is not None:
            raise Refused(
                f"{table}: the column {name} came after the snapshot that the run reads, with a default. Insert or "
                "delete a row, so that a newer snapshot has the column, and run again"
            )
        return F.lit(None).cast(now[name].dataType).alias(name)
    column = F.col(quote_name(before.name()))
    if kind.equals(before.type()):
        return column.alias(name)
    if not kind.isPrimitiveType():
        raise Refused(
            f"{table}: the fields of the column {name} have changed since the snapshot that the run reads. Insert or "
            "delete a row, so that a newer snapshot has them, and run again"
        )
    return column.cast(_spark_type(kind)).alias(name)


def find_schema_difference(
    spark: SparkSession, parts: Sequence[str], snapshot: str | None, columns: Sequence[str]
) -> str | None:
    """Say which of these columns was another one, or had another type, at the snapshot; None if all are the same."""
    if snapshot is None:
        return None
    table = load_iceberg_table(spark, parts)
    old, now = _schema_of(table, snapshot), table.schema()
    for name in columns:
        field = now.caseInsensitiveFindField(name)
        before = None if field is None else old.findField(field.fieldId())
        # The rows of the checkpoint were computed from what had this name then.
        if field is None or before is None or (field.name(), field.type()) != (before.name(), before.type()):
            return f"the column {name} of {'.'.join(parts[1:])} has changed since the checkpoint"
    return None


def read_total_bytes(spark: SparkSession, parts: Sequence[str], snapshot: str | None) -> int:
    """The bytes of the data files of a snapshot, as its summary counts them; 0 if it does not."""
    if snapshot is None:
        return 0
    stored = load_iceberg_table(spark, parts).snapshot(int(snapshot))
    return 0 if stored is None else int(stored.summary().get("total-files-size") or 0)


def count_commits(spark: SparkSession, parts: Sequence[str], since: str | None, until: str | None) -> int | None:
    """The commits after `since` up to `until`; None if `since` is not among the newest ones before `until`.

    A rollback of the table, or an expiry, leaves no way from one to the other.
    """
    table, snapshot = load_iceberg_table(spark, parts), until
    for count in range(_MOST_COMMITS):
        if snapshot == since:
            return count
        stored = None if snapshot is None else table.snapshot(int(snapshot))
        if stored is None:
            return None
        parent = stored.parentId()
        snapshot = None if parent is None else str(parent)
    return None


def load_iceberg_table(spark: SparkSession, parts: Sequence[str]) -> Any:
    """The table as the session's catalog has it."""
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # a classic session has a JVM
    return util.loadIcebergTable(spark._jsparkSession, format_sql_name(parts))


def _schema_of(table: Any, snapshot: str) -> Any:
    stored = table.snapshot(int(snapshot))
    if stored is None:
        raise Refused(f"{table.name()} has no snapshot {snapshot} any more")
    schema_id = stored.schemaId()
    return table.schema() if schema_id is None else table.schemas().get(schema_id)


def _spark_type(kind: Any) -> str:
    """The type of Spark for a primitive type of Iceberg, as DDL."""
    text = str(kind.toString())
    names = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}
    return names.get(text, "binary" if text.startswith("fixed") else text)
