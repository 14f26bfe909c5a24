"""Of which changes Hive's side knew, where its partitions were given different ones (decision 39, point 3).

A change that Hive was given it has made of what it wanted, so a rebuild must not replay it. While some partitions wait
that is told apart by partition: a row that was put is known once its own partition shows it, and whoever wrote a
partition knew no more than that partition was given.

    last     the newest change of each key, but for those out of files that Hive lists no more
    here     what the writer of the key's row that there is now could know
    known    keys whose last change the writer knew, or of which the row that it has put was taken away
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.protocol.tasks.sync import Behind
from optimizer.hive_rows import KNEW

SEQUENCE = "_last_updated_sequence_number"
_HERE = "_firn_here"
_TO = "_firn_to"
_THERE = "_firn_there"
_FELL = "_firn_fell"


@dataclass(frozen=True)
class HivePartitions:
    """The published changes of each partition: those up to `through`, except for the partitions that are behind."""

    through: int
    behind: list[Behind]
    inside: Callable[[set[tuple[str | None, ...]]], str]
    """SQL that is true for the rows of these partitions."""

    def to(self) -> Column:
        """The changes that the partition of a row was given."""
        through = F.lit(self.through)
        for behind in self.behind:
            partitions = {tuple(values) for values in behind.partitions}
            through = F.when(F.expr(self.inside(partitions)), F.lit(behind.through)).otherwise(through)
        return through.cast("bigint")


@dataclass(frozen=True)
class Rows:
    """What a rebuild has in hands: changes that count and those of vanished files, and rows as they lie now.

    `hive` are the rows that Hive lists, one for each key, with what their writers knew; `listed` all of them; `rest`
    are base's rows of the other partitions.
    """

    alive: DataFrame
    lost: DataFrame
    hive: DataFrame
    every: DataFrame
    rest: DataFrame


def find_known_keys(rows: Rows, keys: list[str], partition: list[str], published: HivePartitions) -> DataFrame | None:
    """The keys whose changes are not replayed; `keys` and `partition` are columns of all these rows. None for none.

    Found at once, and the candidates before: as parts of the plans that use them, several times over, they took minutes
    to plan. Mostly there are few candidates: what was given while some partition waited.
    """
    last = _candidates(rows.alive, keys, partition, published).localCheckpoint()
    if last.isEmpty():
        return None
    names = [quote_name(key) for key in keys]
    place = list(dict.fromkeys([*keys, *partition]))
    changed = last.select(*names)
    fell = rows.lost.where(F.col(SEQUENCE) > published.to()).groupBy(*names).agg(F.max("_row_id").alias(_FELL))
    rest = rows.rest.join(changed, keys, "left_semi")
    hive = rows.hive.join(changed, keys, "left_semi")
    others = rest.join(hive.select(*names), keys, "left_anti").select(*names, published.to().alias(_HERE))
    here = hive.select(*names, F.col(KNEW).alias(_HERE)).unionByName(others)
    here = here.groupBy(*names).agg(F.max(_HERE).alias(_HERE))
    lies = rows.every.join(changed, keys, "left_semi").select(*map(quote_name, place))
    lies = lies.unionByName(rest.select(*map(quote_name, place))).distinct()
    lies = lies.select(
        *(F.col(quote_name(name)).alias(_name_column_there(name)) for name in place), F.lit(1).alias(_THERE)
    )
    same = [F.col(quote_name(name)).eqNullSafe(F.col(quote_name(_name_column_there(name)))) for name in place]
    compared = last.join(here, keys, "left").join(fell, keys, "left").join(lies, reduce(Column.__and__, same), "left")
    knew = F.coalesce(F.col(SEQUENCE) <= F.col(_HERE), F.lit(False))
    never_fell = F.coalesce(F.col(_FELL) < F.col("_row_id"), F.lit(True))
    taken_away = (F.col("_op") != "D") & F.col(_THERE).isNull() & never_fell
    return compared.where(knew | taken_away).select(*names).localCheckpoint()


def _candidates(alive: DataFrame, keys: list[str], partition: list[str], published: HivePartitions) -> DataFrame:
    """The newest change of each key, where Hive's side can have known it."""
    last = _last(alive, keys, partition, published).where(F.col(SEQUENCE) <= published.through)
    return last.where((F.col("_op") == "D") | (F.col(SEQUENCE) <= F.col(_TO)))


def _last(alive: DataFrame, keys: list[str], partition: list[str], published: HivePartitions) -> DataFrame:
    names = [quote_name(key) for key in keys]
    columns = [F.col(quote_name(name)).alias(name) for name in partition if name not in keys]
    newest = F.max_by(F.struct("_op", SEQUENCE, "_row_id", published.to().alias(_TO), *columns), F.col("_row_id"))
    return alive.groupBy(*names).agg(newest.alias("_firn_last")).select(*names, "_firn_last.*")


def _name_column_there(name: str) -> str:
    return f"_firn_there_{name}"
