"""Rebuild: partitions that Hive has overwritten, dropped or moved are built anew, in one commit that is also a merge.

    ground     the rows that Hive lists in the rebuilt partitions now, and base's rows of all other partitions
    history    every change that Hive was never given, merged or not, but for those out of files that it lists no more
    result     history replayed over ground, by the same SQL as every merge

Changes that were published are in Hive's own files, and its side has made of them what it wanted
(docs/protocols.md, rule 3.1). Base's own rows of the rebuilt partitions are never read: their files may be gone. Only
keys that the rebuild can change are replayed, and only partitions that they touch are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.protocol.tasks.merge import PartitionField
from firn.protocol.tasks.sync import SyncTask
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
from optimizer.hive_rows import ADDED, KNEW, HiveRows
from optimizer.hive_snapshot import HivePartitions, Rows, find_known_keys
from optimizer.job_run import JobRun
from optimizer.jobs.merge import build_signature, format_partitions, sign_properties
from optimizer.partitions import Value, exclude_partitions, predicate

_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_WINS = "_firn_wins"


def rebuild(work: JobRun, task: SyncTask) -> int:
    """Commit the rebuilt partitions; how many partitions were written. Raises as Work.commit does."""
    if not task.replay.is_whole:
        raise Refused("the change store's history is not whole: snapshots were removed that a rebuild must replay")
    work.keeper.stage("finding touched partitions")
    with _prepare_views(work, task) as views:
        touched = views.touched()
        where = views.predicate(touched)
        work.keeper.say(f"{len(touched)} partitions are touched")
        work.keeper.stage("rebuilding")
        work.commit(lambda: _overwrite(work, task, where))
    return len(touched)


def _overwrite(work: JobRun, task: SyncTask, where: str) -> None:
    rows = work.session.spark.sql(task.replay.sql["merged"]).where(where)
    properties = {**build_signature(work, task.merge), "firn.reason": "partitions rebuilt from Hive's files"}
    writer = sign_properties(rows.writeTo(work.session.name(task.merge.base.parts)), properties)
    writer = writer.option("target-file-size-bytes", task.merge.target_file_size)
    if task.merge.base.snapshot_id is None:
        writer.append()
        return
    writer = writer.option("isolation-level", "serializable")
    writer.option("validate-from-snapshot-id", task.merge.base.snapshot_id).overwrite(F.expr(where))


@contextmanager
def _prepare_views(work: JobRun, task: SyncTask) -> Iterator[_Rebuild]:
    """Create the views that the replay's SQL reads; release them at the end."""
    rebuild = _Rebuild(work, task)
    contested = rebuild.contested().persist()
    try:
        rebuild.name_views(contested)
        yield rebuild
    finally:
        contested.unpersist()


@dataclass(frozen=True)
class _Rebuild:
    work: JobRun
    task: SyncTask

    @property
    def hive(self) -> DataFrame:
        """The rows that Hive lists in the rebuilt partitions, one per key."""
        return self._hive_rows.newest()

    @property
    def _hive_rows(self) -> HiveRows:
        return HiveRows(self.work.session, self.task, self._base_table.schema)

    @property
    def rest(self) -> DataFrame:
        """Base's rows of the other partitions."""
        columns = [quote_name(name) for name in self.task.merge.columns]
        return self._base_table.where(self._outside).select(*columns)

    @property
    def _base_table(self) -> DataFrame:
        return self.work.session.spark.table(self.work.session.name(self.task.replay.base))

    def contested(self) -> DataFrame:
        """Keys that both sides of the ground have, and whether Hive's row wins: only a new file's row may.

        Of the others it was decided before that they had lost. With a sequence field the newer row wins.
        """
        hive, rest = self.hive.alias("h"), self.rest.alias("b")
        same = [F.col(f"h.{quote_name(key)}") == F.col(f"b.{quote_name(key)}") for key in self._key]
        wins = F.col(f"h.{ADDED}")
        if self.task.merge.sequence_field:
            mine, theirs = (F.col(f"{side}.{quote_name(self.task.merge.sequence_field)}") for side in ("h", "b"))
            wins = wins & (theirs.isNull() | F.coalesce(mine >= theirs, F.lit(False)))
        kept = [F.col(f"b.{quote_name(name)}") for name in self._columns_listed]
        return hive.join(rest, reduce(Column.__and__, same)).select(*kept, wins.alias(_WINS))

    def name_views(self, contested: DataFrame) -> None:
        """`baseline` and `history`, as the SQL calls them."""
        columns = [quote_name(name) for name in self.task.merge.columns]
        won = contested.where(F.col(_WINS)).select(*self._keys)
        lost = contested.where(~F.col(_WINS)).select(*self._keys)
        hive = self.hive.join(lost, self._key, "left_anti").select(*columns, KNEW)
        baseline = hive.drop(KNEW).unionByName(self.rest.join(won, self._key, "left_anti").select(*columns))
        baseline.createOrReplaceTempView(self.task.replay.baseline)
        self._history(hive).createOrReplaceTempView(self.task.replay.history)
        contested.where(F.col(_WINS)).createOrReplaceTempView("firn_won")

    def _history(self, hive: DataFrame) -> DataFrame:
        """The changes of every key that the rebuild can change.

        Those are pending ones; keys that Hive lists, or a change has put, in rebuilt partitions; and keys that have
        lost a change with its file, whose change before that counts again.
        """
        every = self._changes().where(self._counts)
        dead = create_local_frame(self.work.session.spark, [(source,) for source in self.task.dead], "_source string")
        alive = every.join(F.broadcast(dead), "_source", "left_anti")
        pending = alive.where(F.col("_last_updated_sequence_number") > self.task.merge.watermark)
        inside = alive.where(self._inside)
        lost = every.join(F.broadcast(dead), "_source", "left_semi")
        keys = [frame.select(*self._keys) for frame in (pending, inside, lost, hive)]
        history = alive.join(reduce(DataFrame.union, keys).distinct(), self._key, "left_semi")
        if self.task.since >= self.task.published_through:
            return history
        rows = Rows(alive=alive, lost=lost, hive=hive, every=self._hive_rows.every(), rest=self.rest)
        published = HivePartitions(self.task.published_through, self.task.behind, self.predicate)
        known_keys = find_known_keys(rows, self._key, self._listed_partition, published)
        return history if known_keys is None else history.join(known_keys, self._key, "left_anti")

    @property
    def _counts(self) -> Column:
        """Selects changes that Hive never got; with a sequence field, published deletes too: they beat late changes."""
        is_new = F.col("_last_updated_sequence_number") > self.task.since
        return is_new | (F.col("_op") == "D") if self.task.merge.sequence_field else is_new

    def _changes(self) -> DataFrame:
        """All rows ever appended to the change store. An incremental scan leaves out the snapshot that it starts at."""
        replay, spark, name = self.task.replay, self.work.session.spark, self.work.session.name
        columns = [*(quote_name(column) for column in self.task.merge.columns), "_op", "_source", *_LINEAGE]
        current = spark.table(name(self.task.merge.change.parts))
        if replay.first is None:
            return current.limit(0).select(*columns)
        first = spark.table(name(replay.first)).select(*columns)
        if replay.first_id == replay.last_id:
            return first
        later = spark.read.option("start-snapshot-id", str(replay.first_id))
        later = later.option("end-snapshot-id", str(replay.last_id))
        return first.unionByName(later.table(name(self.task.merge.change.parts)).select(*columns))

    def touched(self) -> set[tuple[Value, ...]]:
        """The partitions to be written: the rebuilt ones, and those that keys leave or come to."""
        rebuilt = {tuple(unit.values) for unit in self.task.units}
        if not self._listed_partition:
            return {()}
        spark = self.work.session.spark
        effective = spark.sql(self.task.replay.sql["effective"])
        led_to = effective.where("_op <> 'D'")
        left = self.rest.join(effective.select(*self._keys), self._key, "left_semi")
        columns = [quote_name(name) for name in self._listed_partition]
        frames = [frame.select(*columns).distinct() for frame in (led_to, left, spark.table("firn_won"))]
        return rebuilt | {tuple(row) for frame in frames for row in format_partitions(frame).collect()}

    def predicate(self, partitions: set[tuple[Value, ...]]) -> str:
        """SQL that is true for the rows of these partitions alone."""
        if not self._listed_partition:
            return "true"
        condition = predicate(self._fields, self._types, partitions, limit=None)
        if condition is None:
            raise Refused("a touched partition has a value that no predicate can name")
        return condition

    @property
    def _inside(self) -> str:
        return self.predicate({tuple(unit.values) for unit in self.task.units})

    @property
    def _outside(self) -> str:
        """Pushed down to base's partitions, so that no file of the rebuilt ones is opened."""
        if not self._listed_partition:
            return "false"
        return exclude_partitions(self._fields, self._types, {tuple(unit.values) for unit in self.task.units})

    @property
    def _key(self) -> list[str]:
        return self.task.merge.primary_key

    @property
    def _keys(self) -> list[str]:
        return [quote_name(key) for key in self._key]

    @property
    def _columns_listed(self) -> list[str]:
        """Key and partition columns, each once."""
        return list(dict.fromkeys([*self._key, *self._listed_partition]))

    @property
    def _listed_partition(self) -> list[str]:
        names = [column.name for column in self.task.partition_columns]
        if None in names:
            raise Refused(
                "a column that Hive partitions the table by was dropped here: partitions cannot be told apart"
            )
        return [name for name in names if name is not None]

    @property
    def _fields(self) -> Sequence[PartitionField]:
        return [PartitionField(column=name, transform="identity", type="") for name in self._listed_partition]

    @property
    def _types(self) -> Sequence[str]:
        schema = self._base_table.schema
        return [schema[name].dataType.simpleString() for name in self._listed_partition]
