"""Upserts and deletes: rows become changes in a keyed table's change store, in one commit that applies once.

A write reads nothing from the table. The checks run inside of the write, so Spark computes the rows once. Only after a
failure does Spark read the rows again, to explain it.
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
from firn.spark.hive import publish_written, sync_before_write
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.skew import spread_rows
from firn.spark.target import Target, load_target, read_field_ids

TRIES = 4
SMALL_BYTES = 32 * 2**20
"""One task writes this many bytes in a second or two, and leaves one file for each partition."""
_COMMITTED_BEFORE = re.compile(r"was committed before, in snapshot (\d+)")
_SHOWN_KEYS = 3
_RANK, _OP = "_firn_rank", "_op"
_BATCH_ENDINGS = {"D": "#delete", None: "#changes"}


@dataclass(frozen=True)
class Written:
    """A batch that is in the table. `was_there` means that an earlier attempt wrote it.

    `batch` is its name for repeated attempts, the caller's or a generated one.
    """

    table: str
    writer: str
    batch: str
    was_there: bool = False


def upsert(
    df: DataFrame,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    batch: str | None = None,
    writer: str | None = None,
    auto_sync: AutoSync | str = AutoSync.NONE,
    publish: bool = False,
) -> Written:
    """Insert the rows with new keys, and replace the rows with existing keys.

    `df` has all of the table's columns, by name. With `columns`, on a table with `firn.partial=true`, it needs the key
    and these columns: rows with existing keys keep their other columns, and in new rows these are null. The table's
    sequence field decides between two rows of one key; without one, two rows are refused. Columns of a sequence group
    are given together, and their sequence values must not be null. A `batch` of a `writer` (by default the
    application's name) is applied once, however often it is sent.

    On a table with `firn.insert-only`, rows with existing keys do nothing.

    `auto_sync` syncs a linked table first, see `read`, so that Hive's rows are older than these. With `publish`, the
    function returns when Hive's readers see the rows: jobs of an optimizer merge and publish them.

    Raises NotKeyed, RowsRefused or CommitRefused if nothing of the batch is in the table. Raises WriteUnknown if that
    is not known: send the batch again under the same name. Raises FirnError if nothing was written because `auto_sync`
    or `publish` is not possible, and NotPublished if the batch is in the table but Hive's readers do not see it.
    """
    sync_before_write(df.sparkSession, table, auto_sync, publish=publish)
    target = load_target(df.sparkSession, table)
    needed, rule = target.columns, "an upsert needs all columns"
    if columns is not None:
        needed, rule = choose_columns(target, columns), "an upsert of some columns needs these and the key columns"
        target = replace(target, ordered_groups=tuple({*target.groups.values()} & {*needed}))
    check_columns(df, target, needed=needed, rule=rule)
    changes = df.select(*cast_columns(df, target, needed))
    if target.has_partial_columns:
        changes = changes.withColumn("_set", F.lit(name_set(df.sparkSession, target, columns)).cast("string"))
    written = _write(changes, target, op=target.default_op, batch=batch, writer=writer)
    return publish_written(df.sparkSession, written) if publish else written


def delete(
    df: DataFrame,
    table: str,
    *,
    batch: str | None = None,
    writer: str | None = None,
    auto_sync: AutoSync | str = AutoSync.NONE,
    publish: bool = False,
) -> Written:
    """Delete the rows with the keys of `df`. Keys that the table lacks do no harm.

    `df` has the key columns, the table's sequence field if there is one (a delete wins against rows that are not newer)
    and, if keys belong to partitions, the partition columns. Other columns are ignored. See `upsert` for everything
    else; an upsert and a delete of one batch name are two batches.
    """
    sync_before_write(df.sparkSession, table, auto_sync, publish=publish)
    target = load_target(df.sparkSession, table)
    if target.is_insert_only:
        raise RowsRefused(
            f"{target.name} is insert-only: no change deletes a row. Run `firn table merge`, and then DELETE on "
            f"{target.name}.base"
        )
    needed = target.delete_columns
    check_columns(
        df,
        target,
        needed=needed,
        rule="a delete needs the key columns, the sequence field, and partition columns of partition-scoped keys",
    )
    changes = df.select(*cast_columns(df, target, needed))
    if target.has_partial_columns:
        changes = changes.withColumn("_set", F.lit(None).cast("string"))
    written = _write(changes, target, op="D", batch=batch, writer=writer)
    return publish_written(df.sparkSession, written) if publish else written


def write_changes(df: DataFrame, table: str, *, batch: str | None = None, writer: str | None = None) -> Written:
    """Upsert some keys and delete others in one commit, so that no reader sees one without the other.

    `df` has all of the table's columns and `_op`, which is `U` to upsert the row or `D` to delete its key. Of rows that
    are deleted only the columns count that `delete` needs; the others may be null. A batch has one row for each key,
    unless the table has a sequence field. See `upsert` for everything else; a batch of changes is another than an
    upsert or a delete of the same name.
    """
    target = load_target(df.sparkSession, table)
    if target.is_insert_only:
        raise RowsRefused(f"{target.name} is insert-only: no change updates or deletes a row. Call firn.spark.upsert")
    rows = df.drop(_OP)
    check_columns(rows, target, needed=target.columns, rule="changes need all columns")
    if df.columns.count(_OP) != 1:
        raise RowsRefused(f"{target.name}: the rows need one column {_OP}, with U or D in each row")
    changes = df.select(*cast_columns(rows, target, target.columns), F.col(_OP).cast("string").alias(_OP))
    if target.has_partial_columns:
        changes = changes.withColumn("_set", F.lit(None).cast("string"))
    return _write(changes, target, op=None, batch=batch, writer=writer)


def choose_columns(target: Target, columns: Sequence[str]) -> list[str]:
    """The key columns and those that the rows set, in the table's order."""
    if not target.has_partial_columns:
        raise RowsRefused(
            f"{target.name}: changes set all columns of this table. Set its property firn.partial to true first, while "
            "nothing is pending"
        )
    wanted = [columns] if isinstance(columns, str) else list(columns)
    unknown = [name for name in wanted if name not in target.columns]
    if unknown:
        raise RowsRefused(
            f"{target.name} has no column {', '.join(unknown)}; it has {', '.join(target.columns)} (case matters)"
        )
    check_whole_groups(target, wanted)
    return [name for name in target.columns if name in wanted or name in target.key]


def check_whole_groups(target: Target, columns: Sequence[str]) -> None:
    """Raise RowsRefused if the columns name a part of a sequence group: such a change would not set the group."""
    for sequence in sorted({target.groups[name] for name in columns if name in target.groups}):
        missing = [name for name, own in target.groups.items() if own == sequence and name not in columns]
        if missing:
            raise RowsRefused(
                f"{target.name}: the columns of a sequence group are set together: name {', '.join(missing)}, too"
            )


def name_set(spark: SparkSession, target: Target, columns: Sequence[str] | None) -> str | None:
    """The ids of the columns that a change sets, as in `3,5`; None for all. Key columns are always set."""
    if columns is None:
        return None
    ids, chosen = read_field_ids(spark, target), choose_columns(target, columns)
    return ",".join(str(ids[name]) for name in chosen if name not in target.key)


def check_columns(df: DataFrame, target: Target, *, needed: Sequence[str], rule: str) -> None:
    """Raise RowsRefused for missing, unknown and repeated columns; `rule` explains which are needed."""
    repeated = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if repeated:
        raise RowsRefused(f"{target.name}: columns appear twice in the rows: {', '.join(repeated)}")
    missing = [name for name in needed if name not in df.columns]
    if missing:
        raise RowsRefused(f"{target.name}: the rows lack {', '.join(missing)}; {rule}: {', '.join(needed)}")
    unknown = [name for name in df.columns if name not in target.columns]
    if unknown:
        raise RowsRefused(
            f"{target.name} has no column {', '.join(unknown)}; it has {', '.join(target.columns)} (case matters)"
        )


def cast_columns(df: DataFrame, target: Target, columns: Sequence[str]) -> list[Column]:
    """Cast the columns to the table's types. Text is not parsed as numbers or dates: that would hide mistakes."""
    types = {field.name: field.dataType for field in df.schema.fields}
    selected = []
    for field in target.fields:
        if field.name not in columns:
            continue
        kinds = types[field.name].simpleString(), field.dataType.simpleString()
        if kinds[0] == "string" != kinds[1]:
            raise RowsRefused(
                f"{target.name}: column {field.name} is {kinds[1]}, the rows have text there: convert it first"
            )
        column = F.col(quote_name(field.name))
        selected.append(column if kinds[0] == kinds[1] else column.cast(field.dataType).alias(field.name))
    return selected


def _write(df: DataFrame, target: Target, *, op: str | None, batch: str | None, writer: str | None) -> Written:
    # Without `op`, each row has its own in the column `_op`.
    name = writer or df.sparkSession.conf.get("spark.app.name", "firn") or "firn"
    written = Written(target.name, name, batch or str(uuid4()))
    for attempt in range(1, TRIES + 1):
        try:
            _append(df, target, written, op)
        except Exception as error:  # Java throws many types of errors; the outcome of the commit matters
            if attempt == 1:
                # Only the first failure can prove that nothing was written. Before a later one, one is unanswered.
                _raise_if_certain(df, target, error)
            if is_known_batch(error) or _is_in_table(df.sparkSession, target, written, op):
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
    """Raise the error that explains this failure, unless the batch may be in the table."""
    if is_known_batch(error) or is_uncertain(error):
        return
    if is_refusal(error):
        raise CommitRefused(f"{target.name}: {reason(error)}") from None  # the reason is the innermost message
    _explain(df, target)
    raise error


def is_known_batch(error: Exception) -> bool:
    """Whether the server refused a commit because it has the batch."""
    return any(name == BAD_REQUEST and _COMMITTED_BEFORE.search(message) for name, message in java_causes(error))


def _format_batch_id(batch: str, op: str | None) -> str:
    """The batch id in the table's snapshots. An upsert, a delete and changes of one name are three batches."""
    return f"{batch}{_BATCH_ENDINGS.get(op, '')}"


def _append(df: DataFrame, target: Target, written: Written, op: str | None) -> None:
    is_small = estimate_bytes(df) <= SMALL_BYTES
    keys = [F.col(quote_name(key)) for key in target.key]
    by_key = df.repartition(1, *keys) if is_small else df.repartition(*keys)
    changes = _add_checks(by_key, target, op)
    for field in target.fields:
        if field.name not in df.columns:
            changes = changes.withColumn(field.name, F.lit(None).cast(field.dataType))
    spread = None if is_small else spread_rows(changes, target, sampled=df)
    changes = changes if spread is None else spread
    writer = changes.withColumn("_source", F.lit(None).cast("string")).writeTo(target.change)
    if is_small or spread is not None:  # otherwise Iceberg shuffles again by partition
        writer = writer.option("distribution-mode", "none")
    writer = writer.option("snapshot-property.firn.writer-id", written.writer)
    writer = writer.option("snapshot-property.firn.batch-id", _format_batch_id(written.batch, op))
    with silence_failure_logs(df.sparkSession):
        writer.append()


def _add_checks(df: DataFrame, target: Target, op: str | None) -> DataFrame:
    """Keep one row for each key and add its operation. A wrong row fails the write."""
    window = Window.partitionBy(*[F.col(quote_name(key)) for key in target.key])
    wrong = is_any_null(list_required(target))
    if op is None:
        wrong = wrong | _is_no_op(F.col(_OP))
    if target.sequence_field is None:
        # Any order works: a second row of a key is an error, whichever comes second.
        ranked = df.withColumn(_RANK, F.row_number().over(window.orderBy(F.lit(1))))
        wrong = wrong | (F.col(_RANK) > 1)
    else:
        arrival = F.monotonically_increasing_id()
        newest = [F.col(quote_name(target.sequence_field)).desc(), F.col("_firn_arrival").desc()]
        ranked = df.withColumn("_firn_arrival", arrival).withColumn(_RANK, F.row_number().over(window.orderBy(*newest)))
        ranked = ranked.where(F.col(_RANK) == 1).drop("_firn_arrival")
    failed = F.raise_error(F.lit(f"{target.name}: null or repeated keys, or a null in a sequence field")).cast("string")
    operation = F.col(_OP) if op is None else F.lit(op)
    return ranked.withColumn(_OP, F.when(wrong, failed).otherwise(operation)).drop(_RANK)


def _is_no_op(op: Column) -> Column:
    return ~F.coalesce(op.isin("U", "D"), F.lit(False))


def list_required(target: Target) -> list[str]:
    """The columns that must not be null: the key, the sequence field, and those of the groups that a write sets."""
    return [*target.key, *([target.sequence_field] if target.sequence_field else []), *target.ordered_groups]


def is_any_null(columns: Sequence[str]) -> Column:
    """Whether one of the columns is null."""
    condition = F.lit(False)
    for column in columns:
        condition = condition | F.col(quote_name(column)).isNull()
    return condition


def _explain(df: DataFrame, target: Target) -> None:
    """Raise RowsRefused if the rows themselves made the write fail."""
    if _OP in df.columns and not (wrong := df.where(_is_no_op(F.col(_OP))).limit(1)).isEmpty():
        raise RowsRefused(f"{target.name}: {_OP} is {wrong.collect()[0][_OP]!r} in a row; it must be U or D") from None
    counts = df.agg(
        *[F.count_if(F.col(quote_name(name)).isNull()).alias(name) for name in list_required(target)]
    ).first()
    nulls = {} if counts is None else {name: n for name, n in counts.asDict().items() if n}
    if nulls:
        described = ", ".join(f"{name} in {n} rows" for name, n in nulls.items())
        raise RowsRefused(
            f"{target.name}: key columns and sequence fields must not be null; null are {described}"
        ) from None
    if target.sequence_field is not None:
        return
    keys = [F.col(quote_name(key)) for key in target.key]
    repeated = df.groupBy(*keys).count().where("count > 1")
    sample = repeated.limit(_SHOWN_KEYS).collect()
    if sample:
        shown = ", ".join("(" + ", ".join(f"{key}={row[key]!r}" for key in target.key) + ")" for row in sample)
        raise RowsRefused(
            f"{target.name}: {repeated.count()} keys appear more than once in the rows, such as {shown}. Keep one row "
            "of each, or give the table a sequence field that orders them"
        ) from None


def _is_in_table(spark: SparkSession, target: Target, written: Written, op: str | None) -> bool:
    """Whether the table has the batch; False if the server does not answer."""
    try:
        summary = F.col("summary")
        of_writer = summary["firn.writer-id"] == written.writer
        of_batch = summary["firn.batch-id"] == _format_batch_id(written.batch, op)
        spark.sql(f"REFRESH TABLE {target.change}")
        return not spark.table(f"{target.change}.snapshots").where(of_writer & of_batch).isEmpty()
    except (PySparkException, Py4JError, ConnectionError):
        return False


def estimate_bytes(df: DataFrame) -> int:
    """The size of the rows that Spark's planner estimates; too large if it does not know."""
    return int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
