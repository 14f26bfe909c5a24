"""Upserts and deletes: rows become changes in a keyed table's change store, in one commit that is made once.

Nothing is looked up in the table. Checks run inside the write itself, so the rows are computed once; only when it has
failed are they looked at again, to say what is wrong with them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.auto_sync import AutoSync
from firn.protocol.names import quote_name
from firn.spark.errors import (
    BAD_REQUEST,
    CommitRefused,
    RowsRefused,
    WriteUnknown,
    is_refusal,
    is_uncertain,
    java_causes,
    reason,
)
from firn.spark.hive import before_write, published
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.target import Target, target_of

TRIES = 4
SMALL_BYTES = 32 * 2**20
"""What one task writes in a second or two: as one, it leaves one file per partition."""
_COMMITTED_BEFORE = re.compile(r"was committed before, in snapshot (\d+)")
_SHOWN_KEYS = 3
_RANK = "_firn_rank"


@dataclass(frozen=True)
class Written:
    """A batch that is in the table. `was_there` says that an earlier attempt had brought it.

    `batch` is the name to send it again under, given or made up.
    """

    table: str
    writer: str
    batch: str
    was_there: bool = False


def upsert(
    df: DataFrame,
    table: str,
    *,
    batch: str | None = None,
    writer: str | None = None,
    auto_sync: AutoSync | str = AutoSync.NONE,
    publish: bool = False,
) -> Written:
    """Insert the rows whose keys are new to the table, replace those whose keys are there.

    `df` has all of the table's columns, by name. Two rows of one key are told apart by the table's sequence field;
    without one they are refused. With `batch`, the same batch of the same `writer` (the application's name unless
    given) is applied once, however often it is sent.

    A table over a Hive table can be brought up to it first, see `read`: then Hive's rows are older than these. With
    `publish` it returns when Hive's readers see the rows: they are merged and published, by an optimizer's jobs.

    Raises NotKeyed, RowsRefused and CommitRefused when nothing of it is in the table, and WriteUnknown when that could
    not be found out: then send it again, under the same batch name. FirnError when nothing was written because
    `auto_sync` or `publish` cannot be had, NotPublished when it was written and Hive's readers do not see it.
    """
    before_write(df.sparkSession, table, auto_sync, publish=publish)
    target = target_of(df.sparkSession, table)
    _check_columns(df, target, needed=target.columns, what="an upsert needs all columns")
    changes = df.select(*_cast(df, target, target.columns))
    written = _written(changes, target, op="U", batch=batch, writer=writer)
    return published(df.sparkSession, written) if publish else written


def delete(
    df: DataFrame,
    table: str,
    *,
    batch: str | None = None,
    writer: str | None = None,
    auto_sync: AutoSync | str = AutoSync.NONE,
    publish: bool = False,
) -> Written:
    """Delete the rows that have the keys of `df`; keys that the table has not are fine.

    `df` has the key columns, the sequence field where the table has one (a delete wins against rows that are not newer)
    and, where keys belong to partitions, the partition columns. Its other columns are not looked at. See `upsert` for
    everything else; an upsert and a delete of one batch name are two batches.
    """
    before_write(df.sparkSession, table, auto_sync, publish=publish)
    target = target_of(df.sparkSession, table)
    needed = target.delete_columns
    _check_columns(df, target, needed=needed, what="a delete needs the key columns, and what orders or places them")
    changes = df.select(*_cast(df, target, needed))
    written = _written(changes, target, op="D", batch=batch, writer=writer)
    return published(df.sparkSession, written) if publish else written


def _check_columns(df: DataFrame, target: Target, *, needed: Sequence[str], what: str) -> None:
    repeated = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if repeated:
        raise RowsRefused(f"{target.name}: columns appear twice in the rows: {', '.join(repeated)}")
    missing = [name for name in needed if name not in df.columns]
    if missing:
        raise RowsRefused(f"{target.name}: the rows lack {', '.join(missing)}; {what}: {', '.join(needed)}")
    unknown = [name for name in df.columns if name not in target.columns]
    if unknown:
        raise RowsRefused(
            f"{target.name} has no column {', '.join(unknown)}; it has {', '.join(target.columns)} (case matters)"
        )


def _cast(df: DataFrame, target: Target, columns: Sequence[str]) -> list[Column]:
    """The columns in the table's types. Text is not parsed into numbers or dates: that would hide a mix-up."""
    given = {field.name: field.dataType for field in df.schema.fields}
    selected = []
    for field in target.fields:
        if field.name not in columns:
            continue
        kinds = given[field.name].simpleString(), field.dataType.simpleString()
        if kinds[0] == "string" != kinds[1]:
            raise RowsRefused(
                f"{target.name}: column {field.name} is {kinds[1]}, the rows have text there: convert it first"
            )
        column = F.col(quote_name(field.name))
        selected.append(column if kinds[0] == kinds[1] else column.cast(field.dataType).alias(field.name))
    return selected


def _written(df: DataFrame, target: Target, *, op: str, batch: str | None, writer: str | None) -> Written:
    name = writer or df.sparkSession.conf.get("spark.app.name", "firn") or "firn"
    written = Written(target.name, name, batch or str(uuid4()))
    for attempt in range(1, TRIES + 1):
        try:
            _append(df, target, written, op)
        except Exception as error:  # whatever Java throws: what matters is what became of the commit
            if attempt == 1:
                # Only the first failure can say that nothing is there: behind a later one is an attempt without answer.
                _raise_if_certain(df, target, error)
            if _was_refused_as_known(error) or _is_in_table(df.sparkSession, target, written, op):
                return replace(written, was_there=True)
            if attempt == TRIES:
                raise WriteUnknown(
                    f"{target.name}: no answer to the commit of batch {written.batch!r} of writer {written.writer!r}; "
                    f"send it again under that name, it is applied once. Last error: {reason(error)}"
                ) from error
            time.sleep(0.5 * 2**attempt)
        else:
            return written
    raise AssertionError("unreachable")


def _raise_if_certain(df: DataFrame, target: Target, error: Exception) -> None:
    """Raise what this failure is, unless the batch may be in the table."""
    if _was_refused_as_known(error) or is_uncertain(error):
        return
    if is_refusal(error):
        raise CommitRefused(f"{target.name}: {reason(error)}") from None  # the reason is the innermost message
    _explain(df, target)
    raise error


def _was_refused_as_known(error: Exception) -> bool:
    return any(name == BAD_REQUEST and _COMMITTED_BEFORE.search(message) for name, message in java_causes(error))


def _recorded(batch: str, op: str) -> str:
    """The batch as the table knows it: an upsert and a delete of one name are two."""
    return f"{batch}#delete" if op == "D" else batch


def _append(df: DataFrame, target: Target, written: Written, op: str) -> None:
    is_small = _estimated_bytes(df) <= SMALL_BYTES
    keys = [F.col(quote_name(key)) for key in target.key]
    spread = df.repartition(1, *keys) if is_small else df.repartition(*keys)
    changes = _checked(spread, target, op)
    for field in target.fields:
        if field.name not in df.columns:
            changes = changes.withColumn(field.name, F.lit(None).cast(field.dataType))
    writer = changes.withColumn("_source", F.lit(None).cast("string")).writeTo(target.change)
    if is_small:
        writer = writer.option("distribution-mode", "none")
    writer = writer.option("snapshot-property.firn.writer-id", written.writer)
    writer = writer.option("snapshot-property.firn.batch-id", _recorded(written.batch, op))
    with silence_failure_logs(df.sparkSession):
        writer.append()


def _checked(df: DataFrame, target: Target, op: str) -> DataFrame:
    """One row per key, with its operation; a row that must not be there fails the write."""
    window = Window.partitionBy(*[F.col(quote_name(key)) for key in target.key])
    wrong = _null_in(_not_null(target))
    if target.sequence_field is None:
        # Any order does: a second row of a key is an error, whichever comes second.
        ranked = df.withColumn(_RANK, F.row_number().over(window.orderBy(F.lit(1))))
        wrong = wrong | (F.col(_RANK) > 1)
    else:
        arrival = F.monotonically_increasing_id()
        newest = [F.col(quote_name(target.sequence_field)).desc(), F.col("_firn_arrival").desc()]
        ranked = df.withColumn("_firn_arrival", arrival).withColumn(_RANK, F.row_number().over(window.orderBy(*newest)))
        ranked = ranked.where(F.col(_RANK) == 1).drop("_firn_arrival")
    failed = F.raise_error(F.lit(f"{target.name}: null or repeated keys")).cast("string")
    return ranked.withColumn("_op", F.when(wrong, failed).otherwise(F.lit(op))).drop(_RANK)


def _not_null(target: Target) -> list[str]:
    return [*target.key, *([target.sequence_field] if target.sequence_field else [])]


def _null_in(columns: Sequence[str]) -> Column:
    found = F.lit(False)
    for column in columns:
        found = found | F.col(quote_name(column)).isNull()
    return found


def _explain(df: DataFrame, target: Target) -> None:
    """Raise RowsRefused when the rows themselves are why the write failed."""
    counts = df.agg(*[F.count_if(F.col(quote_name(name)).isNull()).alias(name) for name in _not_null(target)]).first()
    nulls = {} if counts is None else {name: n for name, n in counts.asDict().items() if n}
    if nulls:
        found = ", ".join(f"{name} in {n} rows" for name, n in nulls.items())
        raise RowsRefused(
            f"{target.name}: key columns and the sequence field must not be null; null are {found}"
        ) from None
    if target.sequence_field is not None:
        return
    keys = [F.col(quote_name(key)) for key in target.key]
    repeated = df.groupBy(*keys).count().where("count > 1")
    some = repeated.limit(_SHOWN_KEYS).collect()
    if some:
        shown = ", ".join("(" + ", ".join(f"{key}={row[key]!r}" for key in target.key) + ")" for row in some)
        raise RowsRefused(
            f"{target.name}: {repeated.count()} keys appear more than once in the rows, such as {shown}. Keep one row "
            "of each, or give the table a sequence field that says which is newer"
        ) from None


def _is_in_table(spark: SparkSession, target: Target, written: Written, op: str) -> bool:
    """Whether the batch was found there; a server that does not answer has not been found to have it."""
    try:
        summary = F.col("summary")
        of_writer = summary["firn.writer-id"] == written.writer
        of_batch = summary["firn.batch-id"] == _recorded(written.batch, op)
        spark.sql(f"REFRESH TABLE {target.change}")
        return not spark.table(f"{target.change}.snapshots").where(of_writer & of_batch).isEmpty()
    except (PySparkException, Py4JError, ConnectionError):
        return False


def _estimated_bytes(df: DataFrame) -> int:
    """What Spark's planner makes of the size; generous where it does not know."""
    return int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
