"""The rows of a stream's batch as changes of a keyed table, in the order in which they arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.errors import RowsRefused
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.skew import spread_rows
from firn.spark.target import Target
from firn.spark.write import cast_columns, check_columns, choose_columns, is_any_null, list_required, name_set

_ARRIVAL = "_firn_arrival"
_RANK = "_firn_rank"


@dataclass(frozen=True)
class Shape:
    """How the rows of a stream name their operation and the columns that they set."""

    op: str | None = None
    """The column with the operation; None for upserts only, on an insert-only table for inserts."""
    columns: Sequence[str] | None = None
    """The columns that upserts set, in a table with partial columns; None for all."""


def append_changes(df: DataFrame, target: Target, shape: Shape, summary: Mapping[str, str], *, is_small: bool) -> None:
    """Append the rows to the change store in one commit with these options for its summary.

    Within a commit all changes of a key lie in one file, in order (docs/streams.md, "Order").
    """
    changes = build_changes(df, target, shape)
    keys = [F.col(quote_name(key)) for key in target.key]
    arrived = changes
    if target.can_keys_move:
        changes = keep_one(changes, target)
    spread = changes.repartition(1) if is_small else spread_rows(changes, target, sampled=arrived)
    changes = (changes.repartition(*keys) if spread is None else spread).sortWithinPartitions(_ARRIVAL)
    writer = changes.drop(_ARRIVAL).writeTo(target.change).options(**summary)
    # Iceberg would sort by partition, which may change the order of a key's changes, and shuffle by partition.
    writer = writer.option("distribution-mode", "none").option("use-table-distribution-and-ordering", "false")
    with silence_failure_logs(df.sparkSession):
        writer.option("fanout-enabled", "true").append()


def build_changes(df: DataFrame, target: Target, shape: Shape) -> DataFrame:
    """The rows as changes, numbered as they arrive. RowsRefused for columns that do not fit; a bad row fails later."""
    op = shape.op
    if op is not None and op not in df.columns:
        raise RowsRefused(f"{target.name}: the rows have no column {op}, which is to name their operation")
    rows = df.drop(op) if op is not None else df
    needed, rule = target.columns, "a stream needs all columns"
    if shape.columns is not None:
        needed, rule = choose_columns(target, shape.columns), "a stream of some columns needs these and the key columns"
    check_columns(rows, target, needed=needed, rule=rule)
    operation = F.lit(target.default_op) if op is None else F.col(quote_name(op))
    own = [_check(target, operation).alias("_op"), F.lit(None).cast("string").alias("_source")]
    if target.has_partial_columns:
        ids = F.lit(name_set(df.sparkSession, target, shape.columns)).cast("string")
        own.append(F.when(operation != "D", ids).alias("_set"))  # a delete resets all columns
    left_out = [
        F.lit(None).cast(field.dataType).alias(field.name) for field in target.fields if field.name not in needed
    ]
    arrival = F.monotonically_increasing_id().alias(_ARRIVAL)
    return df.select(*cast_columns(rows, target, needed), *left_out, *own, arrival)


def _check(target: Target, operation: Column) -> Column:
    """The operation; a row without key or sequence value, or with another operation, fails the write."""
    failed = F.raise_error(F.lit(f"{target.name}: a row has a null in {', '.join(list_required(target))}"))
    takes = "an operation is I, U or D, not "
    if target.is_insert_only:
        takes = "the table is insert-only: an operation is I, not "
    unknown = F.raise_error(F.concat(F.lit(f"{target.name}: {takes}"), F.coalesce(operation, F.lit("null"))))
    return (
        F.when(is_any_null(list_required(target)), failed.cast("string"))
        .when(operation.isin(*target.operations), operation)
        .otherwise(unknown.cast("string"))
    )


def keep_one(changes: DataFrame, target: Target) -> DataFrame:
    """The change of each key that wins. Two of them could lie in files of two partitions, where their order is lost."""
    order = [F.col(_ARRIVAL).asc() if target.is_insert_only else F.col(_ARRIVAL).desc()]
    if target.sequence_field is not None:
        order.insert(0, F.col(quote_name(target.sequence_field)).desc())
    window = Window.partitionBy(*[F.col(quote_name(key)) for key in target.key]).orderBy(*order)
    ranked = changes.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)
