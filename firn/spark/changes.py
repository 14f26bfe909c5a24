"""The net changes of a table between two versions or snapshots, as a frame (docs/changes.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.changes import Position, write_range
from firn.client import Client
from firn.names import split_name
from firn.protocol.answers.changes import ChangePlan, FeedCommit, FeedVersion
from firn.protocol.changes import Each, Images
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.comparing import make_comparable
from firn.spark.file_changes import OWN, read_file_changes
from firn.spark.sessions import client_of


def read_changes(
    table: str,
    *,
    since: Position,
    until: Position | None = None,
    images: Images | str = Images.AFTER,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Read the changes of a table after `since`, up to `until`, by default the newest state.

    Of a keyed table these are versions, times or, for `since`, a consumer. The feed is net: one change for each key
    whose row differs. With `images="both"` each has the row before and after it. `client.tables[…].changes(each=
    "change")` gives every change, without Spark. The frame always shows the same changes, until its first version
    expires.

    Of a table without a primary key these are snapshots, branches, tags or times, see
    `firn.spark.file_changes.read_file_changes`.

    Raises RuntimeError without a running session, and Refused if the history at `since` has expired: the error names
    what is left.
    """
    active = _require_session(spark)
    images = Images(images)
    client, name = client_of(active, table)
    with client:
        if not client.tables[name].show().primary_key:
            return read_file_changes(active, table, client.tables[name].changed_files(since=since, until=until), images)
        plan = plan_feed(client, name, table, since, until)
    return _build(active, table, plan, images)


def on_changes(
    table: str,
    function: Callable[[DataFrame, int], None],
    *,
    consumer: str,
    images: Images | str = Images.AFTER,
    every_seconds: float | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Call `function` with the changes that a consumer has not read, and their version; then move the consumer there.

    A new consumer begins with the empty table. If the function fails, or the program ends, the next call gives the
    same changes again, perhaps with later ones. With `every_seconds` it goes on for ever and waits so long between two
    looks. Returns the version that was reached.

    Raises what the function raises, and Refused if the consumer is behind what is left of the history.
    """
    active = _require_session(spark)
    client, name = client_of(active, table)
    with client:
        consumers = client.tables[name].consumers
        while True:
            if all(known.name != consumer for known in consumers.list()):
                consumers.move(consumer, to=0)
            plan = plan_feed(client, name, table, f"consumer:{consumer}", None)
            if plan.until.version > plan.since.version:
                function(_build(active, table, plan, Images(images)), plan.until.version)
                consumers.move(consumer, to=plan.until.version, expected_version=plan.since.version)
            if every_seconds is None:
                return plan.until.version
            time.sleep(every_seconds)


def _require_session(spark: SparkSession | None) -> SparkSession:
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    return active


def plan_feed(client: Client, name: str, table: str, since: Position, until: Position | None) -> ChangePlan:
    """Ask the server for the plan of a net feed. `name` is the table's name there, `table` its name in Spark."""
    params = {**write_range(since, until, Each.NET), "spark_catalog": split_name(table)[0]}
    return ChangePlan.read(client.tables[name].get("/changes/plan", params))


def _build(spark: SparkSession, table: str, plan: ChangePlan, images: Images) -> DataFrame:
    feed = Feed(spark, split_name(table), plan)
    return feed.compare(plan.since, plan.until, feed.list_changed_keys()).select(*_lay_out(plan, images))


def _lay_out(plan: ChangePlan, images: Images) -> list[Column]:
    """The columns of a feed, over frames with the structs `before` and `after`."""
    kind = F.when(F.col("before").isNull(), "insert").when(F.col("after").isNull(), "delete").otherwise("update")
    own = [kind.alias(OWN[0]), *(F.col(name) for name in OWN[1:])]
    shown = F.coalesce(F.col("after"), F.col("before"))
    if images is Images.AFTER:
        return [*own, *(shown.getField(name).alias(name) for name in plan.columns)]
    keys = [shown.getField(name).alias(name) for name in plan.primary_key]
    return [*own, *keys, F.col("before").alias("_before"), F.col("after").alias("_after")]


@dataclass(frozen=True)
class Feed:
    """Frames of one plan. Keys are `k0`, `k1` …, and rows are structs, so that no column's name gets in the way."""

    spark: SparkSession
    table: Sequence[str]
    plan: ChangePlan

    @property
    def keys(self) -> list[str]:
        return [f"k{i}" for i in range(len(self.plan.primary_key))]

    def compare(self, since: FeedVersion, until: FeedVersion, keys: DataFrame) -> DataFrame:
        """The net changes of these keys. Rows that share a key are compared in one order."""
        first, last = (self._number(self.read_state(version, keys)) for version in (since, until))
        first, last = first.withColumnRenamed("row", "before"), last.withColumnRenamed("row", "after")
        joined = first.join(last, [*self.keys, "n"], "full_outer")
        kind = joined.schema["before"].dataType
        before, after = (make_comparable(F.col(name), kind) for name in ("before", "after"))
        return joined.where(~before.eqNullSafe(after)).select(
            F.lit(until.version).cast("bigint").alias(OWN[1]),
            F.lit(until.committed_at.isoformat()).cast("timestamp").alias(OWN[2]),
            "before",
            "after",
        )

    def list_changed_keys(self) -> DataFrame:
        """All keys whose rows may differ."""
        keys = [self._read_appended(self.plan.appends)] if self.plan.appends else []
        if self.plan.base_known:
            pairs: list[tuple[str | None, str | None]]
            pairs = [(commit.parent_id, commit.snapshot_id) for commit in self.plan.direct]
        else:
            pairs = [(self.plan.since.base_snapshot_id, self.plan.until.base_snapshot_id)]
        keys += [self._read_moved(before, after) for before, after in pairs]
        none = self.spark.table(self._name(self.plan.until.base)).where(F.lit(False)).select(*self._keys_of())
        return reduce(DataFrame.unionAll, [frame.select(*self.keys) for frame in keys], none).distinct()

    def _read_appended(self, commits: Sequence[FeedCommit]) -> DataFrame:
        """The keys of the changes of these commits, which follow each other in the change store."""
        first, last = commits[0], commits[-1]
        change, store = format_sql_name([*self.table, "change"]), self.plan.until.change
        parts = []
        if first.parent_id is None:  # Spark has no incremental scan from the empty table
            parts.append(self.spark.table(self._name(_pin_at(store, first.snapshot_id))))
        start = first.parent_id or first.snapshot_id
        if start != last.snapshot_id:
            reader = self.spark.read.option("start-snapshot-id", start).option("end-snapshot-id", last.snapshot_id)
            parts.append(reader.table(change))
        return reduce(DataFrame.unionAll, [part.select(*self._keys_of()) for part in parts])

    def read_all(self, version: FeedVersion) -> DataFrame:
        """The merged rows at a version."""
        return self.spark.sql(version.sql or "")

    def read_state(self, version: FeedVersion, keys: DataFrame) -> DataFrame:
        """The merged rows of these keys at a version, as structs `row`, with the keys as `k0`, `k1` …"""
        rows = self.read_all(version).select(*self._keys_of(), self._row().alias("row"))
        return rows.join(keys, self.keys, "left_semi")

    def _read_moved(self, before: str | None, after: str | None) -> DataFrame:
        """The keys of base's rows that only one of two snapshots has, by file and position."""
        store = self.plan.until.base
        first, last = (
            self.spark.table(self._name(_pin_at(store, snapshot))).select(*self._keys_of(), "_file", "_pos")
            for snapshot in (before, after)
        )
        places = ["_file", "_pos"]
        return first.join(last, places, "left_anti").unionByName(last.join(first, places, "left_anti"))

    def _number(self, rows: DataFrame) -> DataFrame:
        order = make_comparable(F.col("row"), rows.schema["row"].dataType)
        return rows.withColumn("n", F.row_number().over(Window.partitionBy(*self.keys).orderBy(F.xxhash64(order))))

    def _keys_of(self) -> list[Column]:
        return [F.col(quote_name(key)).alias(f"k{i}") for i, key in enumerate(self.plan.primary_key)]

    def _row(self) -> Column:
        return F.struct(*(F.col(quote_name(name)) for name in self.plan.columns))

    def _name(self, pinned: str) -> str:
        return format_sql_name([*self.table, pinned])


def _pin_at(pinned: str, snapshot: str | None) -> str:
    """The name of another snapshot of a pinned table: `base_at_7_0` at 9 is `base_at_9_0`."""
    store, at, _, schema = pinned.rsplit("_", 3)
    return f"{store}_{at}_{snapshot or 'none'}_{schema}"
