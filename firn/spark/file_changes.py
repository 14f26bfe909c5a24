"""The net changes of a table without a primary key between two snapshots, as a frame (docs/changes.md#plain-tables).

The server lists the files that one of the two snapshots does not have, or has with other deletes. Only these are read,
and of a file that both have only the rows that its deletes delete. Rows of both snapshots cancel each other by their
values, in one aggregation: a compaction writes the same rows again, and an overwrite may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.answers.changes import ChangedFile, FileChangesOut, ReadFile
from firn.protocol.changes import Images
from firn.spark.chosen_files import ChosenFiles
from firn.spark.comparing import is_kept_by_grouping, make_comparable

OWN = ("_change_type", "_version", "_committed_at")


def read_file_changes(spark: SparkSession, table: str, plan: FileChangesOut, images: Images) -> DataFrame:
    """Read the rows that only one of two snapshots has: `delete` for those of the first, `insert` for the others.

    A table without a key has no updates: a changed row is a delete and an insert. A row that came twice is there twice.
    Compactions and other rewrites do not show. `_version` is the snapshot `until`. With `images="both"` the rows are
    the structs `_before` and `_after`, one of which is null.

    The frame reads the same files with each action, until they are deleted: after the expiry of their snapshots.
    """
    net = read_net_rows(spark, table, plan)
    kind = F.when(F.col("n") < 0, "delete").otherwise("insert").alias(OWN[0])
    version = F.lit(plan.until.snapshot_id).cast("bigint").alias(OWN[1])
    at = None if plan.until.committed_at is None else plan.until.committed_at.isoformat()
    own = [kind, version, F.lit(at).cast("timestamp").alias(OWN[2])]
    if images is Images.AFTER:
        return net.select(*own, *(F.col("row").getField(name).alias(name) for name in plan.columns))
    is_before = F.col("n") < 0
    before, after = F.when(is_before, F.col("row")), F.when(~is_before, F.col("row"))
    return net.select(*own, before.alias("_before"), after.alias("_after"))


def read_net_rows(spark: SparkSession, table: str, plan: FileChangesOut) -> DataFrame:
    """Read the rows that only the first or only the second of two snapshots has, each as often: as structs `row`.

    `n` is below 0 for rows of the first. Rows are compared, and read, by `plan.columns` alone: of a plan with some of
    the table's columns, a change of another column is no change.
    """
    signed, signs = _read_signed(ChosenFiles(spark, table, plan.delete_files), plan)
    if len(signs) == 1:
        return signed
    sums = _sum_by_row(signed).where(F.col("n") != 0)
    return sums.select("row", F.explode(F.array_repeat(F.signum("n").cast("int"), F.abs("n").cast("int"))).alias("n"))


def read_signed_rows(spark: SparkSession, table: str, plan: FileChangesOut) -> DataFrame | None:
    """As `read_net_rows`, perhaps with some equal rows of both snapshots, and without a step that compares rows.

    None if files were replaced, or had deletes before. Then parts have rows that are in neither snapshot, such as those
    that both of a file's deletes delete: only their sum is 0.
    """
    chosen = ChosenFiles(spark, table, plan.delete_files)
    is_simple = all(
        change.before is None or (change.after and chosen.can_read_deleted and not change.before.deletes)
        for change in plan.files
    )
    return _read_signed(chosen, plan)[0] if is_simple else None


def _read_signed(chosen: ChosenFiles, plan: FileChangesOut) -> tuple[DataFrame, set[int]]:
    """The rows of all parts with their signs, and these."""
    parts = list(_list_parts(plan, can_read_deleted=chosen.can_read_deleted)) or [_Part(1, [])]
    rows = reduce(DataFrame.unionAll, (_read_part(chosen, part, plan.columns) for part in parts))
    return rows, {part.sign for part in parts}


@dataclass(frozen=True)
class _Part:
    """Files whose rows, or deleted rows, each add `sign` to the sum of their value. The sums are the changes."""

    sign: int
    files: Sequence[ReadFile]
    is_deleted: bool = False


def _list_parts(plan: FileChangesOut, *, can_read_deleted: bool) -> Iterator[_Part]:
    """The parts that have rows.

    A row of the first snapshot counts -1, one of the second 1. Of a file that both have, a row that the second one's
    deletes delete was a row of the first, unless the first one's deletes delete it, too. So the deleted rows count with
    the other's sign, and nobody reads the many rows that both have.
    """
    kept, moved = list[ChangedFile](), list[ChangedFile]()
    for change in plan.files:
        (kept if can_read_deleted and change.before and change.after else moved).append(change)
    parts = (
        _Part(-1, [change.before for change in moved if change.before]),
        _Part(1, [change.after for change in moved if change.after]),
        _Part(-1, [change.after for change in kept if change.after and change.after.deletes], is_deleted=True),
        _Part(1, [change.before for change in kept if change.before and change.before.deletes], is_deleted=True),
    )
    return (part for part in parts if part.files)


def _read_part(chosen: ChosenFiles, part: _Part, columns: Sequence[str]) -> DataFrame:
    read = chosen.read_deleted if part.is_deleted else chosen.read
    return read(part.files, columns).select("row", F.lit(part.sign).alias("n"))


def _sum_by_row(signed: DataFrame) -> DataFrame:
    kind = signed.schema["row"].dataType
    if is_kept_by_grouping(kind):  # then Spark can aggregate in a hash table, which has no room for `first`
        return signed.groupBy("row").agg(F.sum("n").alias("n"))
    value = make_comparable(F.col("row"), kind).alias("value")
    return signed.groupBy(value).agg(F.first("row").alias("row"), F.sum("n").alias("n"))
