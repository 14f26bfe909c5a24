"""Compares the rows that a pipeline's table would have with those of an existing table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import DataType, DoubleType, FloatType, NullType
from sqlglot import exp

import firn.spark
from firn.errors import Invalid
from firn.pipelines.definition import Definition
from firn.pipelines.parsing import DIALECT
from firn.pipelines.tables import find_tables, table_name
from firn.protocol.names import quote_name
from firn.spark.comparing import make_comparable

_NUMBER: Final = "firn_number"
_KINDS: Final = ("equal", "different", "missing", "additional")


@dataclass(frozen=True)
class ComparisonOptions:
    """`key` finds the row of the other table; without one, rows are equal if all their values are.

    Values of FLOAT and DOUBLE are equal if they differ by no more than `tolerance` times the larger one. `examples` is
    the number of rows of each kind that the result has.
    """

    key: Sequence[str] = ()
    tolerance: float = 1e-9
    examples: int = 5


@dataclass(frozen=True)
class Comparison:
    """Counts of rows: `missing` are those that only the old table has, `additional` those that only the new one has.

    Examples are texts by column. Of a different row they have the key, and of each other column old and new value.
    """

    key: tuple[str, ...]
    equal: int
    different: int
    missing: int
    additional: int
    only_old: tuple[str, ...]
    """Columns that were not compared, because only the old table has them."""
    only_new: tuple[str, ...]
    examples: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether all rows of both tables are equal."""
        return not (self.different or self.missing or self.additional)


def compute_table(spark: SparkSession, catalog: str, definitions: Mapping[str, Definition], name: str) -> DataFrame:
    """The rows of a table of a pipeline, computed from its inputs as they are now. It commits nothing.

    Each input is read at one state. Tables of the pipeline that it reads are computed, too.
    """
    views: dict[str, str] = {}

    def define(table: str) -> str:
        if table not in views:
            view = f"firn_compared_{len(views)}"
            views[table] = view
            compute(table).createOrReplaceTempView(view)
        return views[table]

    def compute(table: str) -> DataFrame:
        if table not in definitions:
            return firn.spark.read(f"{quote_name(catalog)}.{table}", spark)
        query = definitions[table].query.copy()
        for part in list(find_tables(query)):
            view = define(table_name(part))
            part.set("catalog", None)
            part.set("db", None)
            part.set("this", exp.to_identifier(view, quoted=True))
        return spark.sql(query.sql(DIALECT, comments=False))

    return compute(name)


def compare_tables(new: DataFrame, old: DataFrame, options: ComparisonOptions) -> Comparison:
    """Compare two tables by the columns that both have. Raises Invalid if these are none, or lack the key."""
    names = {name.lower(): name for name in old.columns}
    common = [name for name in new.columns if name.lower() in names]
    key = [_match(name, common) for name in options.key]
    if not common:
        raise Invalid("the tables have no column in common")
    renamed = [F.col(quote_name(names[name.lower()])).alias(name) for name in common]
    new_rows, old_rows = new.select(*map(quote_name, common)), old.select(*renamed)
    joined = _join(_number(new_rows, key or common), _number(old_rows, key or common), key or common, options).cache()
    try:
        return _summarize(joined, new, old, common, key, options)
    finally:
        joined.unpersist()


def _summarize(
    joined: DataFrame,
    new: DataFrame,
    old: DataFrame,
    common: Sequence[str],
    key: Sequence[str],
    options: ComparisonOptions,
) -> Comparison:
    counts = {row["kind"]: row["count"] for row in joined.groupBy("kind").count().collect()}
    return Comparison(
        key=tuple(key),
        **{kind: counts.get(kind, 0) for kind in _KINDS},
        only_old=tuple(name for name in old.columns if name.lower() not in {column.lower() for column in common}),
        only_new=tuple(name for name in new.columns if name not in common),
        examples={kind: _list_examples(joined, kind, key, common, options) for kind in _KINDS[1:] if counts.get(kind)},
    )


def _match(name: str, columns: Sequence[str]) -> str:
    column = next((column for column in columns if column.lower() == name.lower()), None)
    if column is None:
        raise Invalid(f"the key column {name} is not in both tables", hint="select it in a view, and compare that")
    return column


def _number(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Number the rows of each key, in the order of their other columns: a key that comes twice is paired in order."""
    kinds = {column.name: column.dataType for column in frame.schema.fields}
    parts = [_identify(F.col(quote_name(name)), kinds[name]) for name in key]
    rest = [make_comparable(F.col(quote_name(name)), kinds[name]) for name in frame.columns if name not in key]
    window = Window.partitionBy(*parts).orderBy(*(rest or [F.lit(0)]))
    return frame.select(
        F.struct(*map(quote_name, frame.columns)).alias("row"),
        *_name(parts),
        F.row_number().over(window).alias(_NUMBER),
    )


def _name(parts: Sequence[Column]) -> list[Column]:
    return [part.alias(f"firn_key_{place}") for place, part in enumerate(parts)]


def _identify(value: Column, kind: DataType) -> Column:
    """A value that finds its row. Of a floating-point value nine digits count: others depend on the order of sums."""
    if isinstance(kind, (FloatType, DoubleType)):
        return F.format_string("%.8e", value.cast("double"))
    if isinstance(kind, NullType):
        return F.lit("null")  # Spark joins no columns that have no type
    return make_comparable(value, kind)


def _join(new: DataFrame, old: DataFrame, key: Sequence[str], options: ComparisonOptions) -> DataFrame:
    names = [*(f"firn_key_{place}" for place in range(len(key))), _NUMBER]
    left, right = new.alias("n"), old.alias("o")
    condition = reduce(and_, (F.col(f"n.{name}").eqNullSafe(F.col(f"o.{name}")) for name in names))
    joined = left.join(right, condition, "full").select(F.col("n.row").alias("new"), F.col("o.row").alias("old"))
    kind = F.when(F.col("old").isNull(), "additional").when(F.col("new").isNull(), "missing")
    same = _are_equal(joined, options) if options.key else F.lit(True)
    return joined.withColumn("kind", kind.when(same, "equal").otherwise("different"))


def _are_equal(joined: DataFrame, options: ComparisonOptions) -> Column:
    return reduce(and_, (_is_equal(joined, name, options) for name in joined.schema["new"].dataType.names))  # type: ignore[attr-defined]


def _is_equal(joined: DataFrame, name: str, options: ComparisonOptions) -> Column:
    kinds = [joined.schema[side].dataType[name].dataType for side in ("new", "old")]  # type: ignore[index]
    new, old = (F.col(side).getField(name) for side in ("new", "old"))
    if any(isinstance(kind, (FloatType, DoubleType)) for kind in kinds):
        a, b = new.cast("double"), old.cast("double")
        distance = F.abs(a - b)  # infinite or NaN if one of them is, and Spark takes NaN for the largest number
        near = (distance <= F.greatest(F.abs(a), F.abs(b)) * F.lit(options.tolerance)) & (distance < F.lit(math.inf))
        return a.eqNullSafe(b) | F.coalesce(near, F.lit(False))
    return make_comparable(new, kinds[0]).eqNullSafe(make_comparable(old, kinds[1]))


def _list_examples(
    joined: DataFrame, kind: str, key: Sequence[str], columns: Sequence[str], options: ComparisonOptions
) -> list[dict[str, Any]]:
    rows = joined.where(F.col("kind") == kind)
    if kind != "different":
        side = "old" if kind == "missing" else "new"
        return [_write(row[side], columns) for row in rows.select(side).limit(options.examples).collect()]
    flags = [_is_equal(joined, name, options).alias(f"same_{place}") for place, name in enumerate(columns)]
    return [
        _write_difference(row, key, columns)
        for row in rows.select("new", "old", *flags).limit(options.examples).collect()
    ]


def _write(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: _text(row[name]) for name in columns}


def _write_difference(row: Row, key: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    differ = [name for place, name in enumerate(columns) if not row[f"same_{place}"]]
    changed = {name: [_text(row["old"][name]), _text(row["new"][name])] for name in differ}
    return {"key": _write(row["new"], key), "changed": changed}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
