"""A sample of a table beside a full computation: what an incremental run got wrong, or left as it was."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import DataType, DoubleType, FloatType

from firn.protocol.names import quote_name
from firn.spark.comparing import make_comparable

PROBLEM = "firn_problem"
_SLICES = 100_000
_DIGITS = "%.8e"
"""Sums of floating-point numbers differ in later digits, by the order of addition."""


def find_different(audited: DataFrame, full: DataFrame, key: Sequence[str], percent: float) -> DataFrame:
    """The rows of which only one side has a copy, with what is wrong with each.

    The sample takes this part of the keys, of a table without a key of the rows. Another run takes another sample.
    """
    columns = [quote_name(name) for name in audited.columns]
    chosen = [quote_name(name) for name in key] or columns
    seed, limit = secrets.randbits(31), int(percent * _SLICES / 100)
    sides = [
        _count(frame.select(*columns).where(_is_chosen(frame, chosen, seed, limit)), number)
        for number, frame in ((1, audited), (-1, full))
    ]
    summed = (
        reduce(DataFrame.unionAll, sides)
        .groupBy("firn_value")
        .agg(F.first("firn_row").alias("firn_row"), F.sum("firn_n").alias("firn_n"))
    )
    wrong = summed.where(F.col("firn_n") != 0)
    problem = F.when(F.col("firn_n") > 0, "the table would have it").otherwise("the table would lack it")
    return wrong.select(problem.alias(PROBLEM), "firn_row.*")


def _is_chosen(frame: DataFrame, columns: Sequence[str], seed: int, limit: int) -> Column:
    values = [_compare(F.col(name), frame.schema[name.strip("`").replace("``", "`")].dataType) for name in columns]
    return F.pmod(F.xxhash64(F.lit(seed), *values), F.lit(_SLICES)) < limit


def _count(rows: DataFrame, number: int) -> DataFrame:
    """Rows as structs, and as values that can be compared."""
    names = rows.columns
    values = [
        _compare(F.col(quote_name(name)), rows.schema[name].dataType).alias(f"c{i}") for i, name in enumerate(names)
    ]
    row = F.struct(*(F.col(quote_name(name)) for name in names))
    return rows.select(F.struct(*values).alias("firn_value"), row.alias("firn_row"), F.lit(number).alias("firn_n"))


def _compare(value: Column, kind: DataType) -> Column:
    if isinstance(kind, DoubleType | FloatType):
        return F.format_string(_DIGITS, value + F.lit(0.0))
    return make_comparable(value, kind)
