"""Spreads the rows of a write over tasks: by partition, and hot partitions by key too.

Iceberg's own distribution brings all rows of a partition into one task, so a hot partition takes the time of the whole
write. Rows spread by key alone would leave a file in every partition for every task.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.names import split_name
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.target import Target

SAMPLED_SHARE = 0.02
_TRANSFORM = re.compile(
    r"(?P<function>years|months|days|hours|bucket|truncate)\((?:(?P<width>\d+), )?(?P<column>\w+)\)"
)


def spread_rows(
    df: DataFrame,
    target: Target,
    sampled: DataFrame | None = None,
    *,
    share: float = SAMPLED_SHARE,
    tasks: int | None = None,
) -> DataFrame | None:
    """Spread the rows so that each task gets about as many, and a key of one partition lies in one task.

    A partition with more than one task's share goes to as many tasks as its share; others stay whole. The shares come
    from a sample of `sampled`, by default of the rows themselves. `tasks` is by default the session's number of shuffle
    partitions. Returns None for a table without partitions or with transforms that the function does not know, and for
    deletes that name no partition.
    """
    values, source = _partition_values(target), df if sampled is None else sampled
    if not values or any(name not in source.columns for name in target.partition_columns):
        return None
    tasks = tasks or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or "8")
    partition = F.xxhash64(*values)
    sample = source.select(partition.alias("partition")).sample(share, seed=7).groupBy("partition").count()
    counts = {row[0]: row[1] for row in sample.collect()}
    total = sum(counts.values())
    widths = {number: round(tasks * count / total) for number, count in counts.items()}
    # The hash of a null is 42: among such keys alone, Spark would take the map for one of INT, and cast all hashes.
    hot = [part for number, width in widths.items() if width > 1 for part in (F.lit(number).cast("long"), F.lit(width))]
    width = F.coalesce(F.create_map(*hot)[partition], F.lit(1)) if hot else F.lit(1)
    by_key = F.pmod(F.xxhash64(*[F.col(quote_name(key)) for key in target.key]), width)
    task = F.pmod(F.pmod(partition, F.lit(tasks)) + by_key, F.lit(tasks))
    return df.repartitionById(tasks, task.cast("int"))


def _partition_values(target: Target) -> list[Column] | None:
    """The partition of a row, as expressions; None for a transform that has no function here."""
    functions = format_sql_name([split_name(target.name)[0], "system"])
    values: list[Column] = []
    for transform in target.partition_transforms:
        match = _TRANSFORM.fullmatch(transform)
        if transform in target.columns:
            values.append(F.col(quote_name(transform)))
        elif match is not None:
            width = f"{match['width']}, " if match["width"] else ""
            values.append(F.expr(f"{functions}.{match['function']}({width}{quote_name(match['column'])})"))
        else:
            return None
    return values
