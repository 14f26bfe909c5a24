"""The difference between computed rows and those of a keyed table: what a run writes, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.comparing import make_comparable
from firn.spark.target import Target
from optimizer.errors import Refused
from optimizer.pipelines.computing import Affected

UPSERT, DELETE, UNCHANGED, WRONG, ABSENT = "U", "D", "S", "X", "A"
OP, OLD = "_op", "old"
_SHOWN_KEYS = 3


def find_identity(target: Target) -> list[str]:
    """The columns that name a row: the key, and the partition where keys belong to partitions."""
    names = {*target.key, *(target.partition_columns if target.is_partition_scoped else ())}
    return [name for name in target.columns if name in names]


def compare_rows(computed: DataFrame, current: DataFrame, target: Target, *, keeps_old: bool = False) -> DataFrame:
    """All rows of both frames once, as `row` with its operation: rows that differ, or that only one of them has.

    A computed row without a key, or with one that another has, is WRONG. `keeps_old` adds the table's row as `old`.
    """
    identity = find_identity(target)
    new, old = _pack(computed, target, identity, "new"), _pack(current, target, identity, "old")
    joined = new.join(old, [f"k{i}" for i in range(len(identity))], "full_outer")
    kind = joined.schema["new"].dataType
    is_same = make_comparable(F.col("new"), kind).eqNullSafe(make_comparable(F.col("old"), kind))
    op = (
        F.when(F.col("new").isNull(), DELETE)
        .when(_is_wrong(identity), WRONG)
        .when(is_same, UNCHANGED)
        .otherwise(UPSERT)
    )
    old_row = [F.col("old").alias(OLD)] if keeps_old else []
    return joined.select(op.alias(OP), F.coalesce("new", "old").alias("row"), *old_row)


def compare_columns(computed: DataFrame, current: DataFrame, target: Target, *, keeps_old: bool = False) -> DataFrame:
    """As `compare_rows`, for a table of which others write the rows: some columns of the rows that it has.

    A row that the query does not give gets nulls, and a computed row that the table does not have is ABSENT.
    """
    compared = compare_rows(computed, current, target, keeps_old=True)
    identity, row = find_identity(target), F.col("row")
    filled = [name for name in target.columns if name not in identity]
    kinds = {field.name: field.dataType for field in target.fields}
    nulls = {name: F.lit(None).cast(kinds[name]) for name in filled}
    cleared = F.struct(*(nulls.get(name, row.getField(name)).alias(name) for name in target.columns))
    is_null = reduce(and_, (row.getField(name).isNull() for name in filled))
    is_gone = F.col(OP) == DELETE
    op = (
        F.when(is_gone & is_null, UNCHANGED)
        .when(is_gone, UPSERT)
        .when((F.col(OP) == UPSERT) & F.col(OLD).isNull(), ABSENT)
        .otherwise(F.col(OP))
    )
    old_row = [F.col(OLD)] if keeps_old else []
    return compared.select(op.alias(OP), F.when(is_gone, cleared).otherwise(row).alias("row"), *old_row)


def write_unchanged(changes: DataFrame, affected: Affected, target: Target) -> DataFrame:
    """The changes with rows that are right already as upserts, and deletes of affected keys that have no row.

    Chunks that are computed beside the run leave out the keys that it has written, so it has to write all affected
    ones (docs/protocols.md, rule 8.26). `changes` have all affected rows.
    """
    op = F.when(F.col(OP) == UNCHANGED, UPSERT).otherwise(F.col(OP))
    written, row = changes.withColumn(OP, op), F.col("row")
    identity = find_identity(target)
    names = {name.lower(): name for name in affected.scope}
    kinds = {field.name: field.dataType for field in target.fields}
    keys = affected.frame.select(
        *(F.col(quote_name(names[key.lower()])).cast(kinds[key]).alias(f"k{i}") for i, key in enumerate(identity))
    )
    keys = keys.where(~_any(F.col(f"k{i}").isNull() for i in range(len(identity)))).distinct()
    known = written.select(*(row.getField(key).alias(f"k{i}") for i, key in enumerate(identity)))
    absent = keys.join(known, [f"k{i}" for i in range(len(identity))], "left_anti")
    places = {key: F.col(f"k{i}") for i, key in enumerate(identity)}
    values = (places.get(name, F.lit(None).cast(kinds[name])).alias(name) for name in target.columns)
    deletes = absent.select(F.lit(DELETE).alias(OP), F.struct(*values).alias("row"))
    return written.unionByName(deletes, allowMissingColumns=True)


def check_keys(computed: DataFrame, target: Target) -> DataFrame:
    """The rows of an empty table as upserts; Spark fails with the first one without a key, or with a repeated one."""
    identity = find_identity(target)
    packed = _pack(computed, target, identity, "new")
    failed = F.raise_error(F.lit("null or repeated keys")).cast("string")
    op = F.when(_is_wrong(identity), failed).otherwise(F.lit(UPSERT))
    return packed.select(op.alias(OP), F.col("new").alias("row"))


def unpack(rows: DataFrame, target: Target) -> DataFrame:
    """Changes as the change store has them."""
    return rows.select(*(F.col("row").getField(name).alias(name) for name in target.columns), OP)


def explain_wrong_keys(computed: DataFrame, target: Target) -> None:
    """Raise Refused with examples, if keys are null or come twice."""
    identity = find_identity(target)
    columns = [F.col(quote_name(name)) for name in identity]
    is_null = _any(column.isNull() for column in columns)
    groups = computed.groupBy(*columns).count().where(is_null | (F.col("count") > 1)).limit(_SHOWN_KEYS).collect()
    if groups:
        shown = "; ".join(", ".join(f"{name}={row[name]!r}" for name in identity) for row in groups)
        raise Refused(
            f"{target.name}: the query gives rows without a key, or several of one key, such as {shown}. Nothing was "
            "committed. Group by the key, or choose another one"
        )


def _any(conditions: object) -> Column:
    result = F.lit(False)
    for condition in conditions:  # type: ignore[attr-defined]
        result = result | condition
    return result


def _is_wrong(identity: Sequence[str]) -> Column:
    """Whether a key is null, or not the first of its kind. Which one is first does not count: one is an error."""
    keys = [F.col(f"k{i}") for i in range(len(identity))]
    rank = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(1)))
    return _any(key.isNull() for key in keys) | (rank > 1)


def _pack(rows: DataFrame, target: Target, identity: Sequence[str], name: str) -> DataFrame:
    keys = [F.col(quote_name(key)).alias(f"k{i}") for i, key in enumerate(identity)]
    return rows.select(*keys, F.struct(*(F.col(quote_name(column)) for column in target.columns)).alias(name))
