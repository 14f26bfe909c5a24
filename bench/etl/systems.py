"""The ways to keep the table: Firn's runs, full recomputation, a look-back of 30 days, and MERGE INTO by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.etl.data import (
    CATALOG,
    COLUMNS,
    DRIVER,
    INPUTS,
    MODES,
    NAMESPACE,
    PIPELINE,
    QUERY,
    TAIL_DAYS,
    TRIP,
    Size,
    write_folder,
)
from bench.keyed import Stage
from bench.running import RunningServer
from bench.working import Working
from firn.pipelines import build_put, read_folder


class System(Protocol):
    """One way. `table` is what readers read."""

    table: str
    is_exact: bool
    """Whether its table has to be that of a full computation."""

    def create(self) -> None:
        """Create the table, and fill it for the first time."""

    def update(self, number: int) -> Mapping[str, object]:
        """Bring the table up to date after a round; return what there is to say of it."""


def _query() -> str:
    return QUERY.format(trip=TRIP, driver=DRIVER)


def _create_plain(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (day) "
        f"TBLPROPERTIES ('format-version' = '3', {MODES})"
    )


@dataclass
class FirnIncremental:
    """Runs of a pipeline into a keyed table, each with the merge of its changes."""

    spark: SparkSession
    server: RunningServer
    optimizer: Working
    folder: Path
    table = f"{NAMESPACE}.firn"
    is_exact = True

    def create(self) -> None:
        write_folder(self.folder)
        definition = build_put(read_folder(self.folder), INPUTS.get, catalog=CATALOG)
        self.server.client.pipelines[PIPELINE].put(definition)
        self.update(0)

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        job = self.server.client.pipelines[PIPELINE].run("firn")
        result = self.optimizer.run(self.server.client.jobs.get(job.id)).result
        merge = self.server.client.tables["etl.firn"].start_job("merge")
        if merge.outcome is None:
            self.optimizer.run(merge)
        return {name: result.get(name) for name in ("mode", "reason", "keys", "written", "deleted", "unchanged")}


@dataclass
class FullRecompute:
    """All rows, in one overwrite."""

    spark: SparkSession
    table = f"{NAMESPACE}.full"
    is_exact = True

    def create(self) -> None:
        _create_plain(self.spark, self.table)
        self.update(0)

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        self.spark.sql(_query()).writeTo(self.table).overwrite(F.lit(True))
        return {}


@dataclass
class LookBack:
    """The rows of the last 30 days, in one overwrite. It never sees an older change."""

    spark: SparkSession
    size: Size
    table = f"{NAMESPACE}.lookback"
    is_exact = False

    def create(self) -> None:
        _create_plain(self.spark, self.table)
        self.spark.sql(_query()).writeTo(self.table).append()

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        since = self.size.days - TAIL_DAYS
        query = _query().replace("WHERE", f"WHERE t.day >= {since} AND")
        self.spark.sql(query).writeTo(self.table).overwrite(F.col("day") >= since)
        return {}


@dataclass
class MergeByHand:
    """MERGE INTO of the groups whose trips carry the number of the round: what an author can see without deletes."""

    spark: SparkSession
    table = f"{NAMESPACE}.merged"
    is_exact = False

    def create(self) -> None:
        _create_plain(self.spark, self.table)
        self.spark.sql(_query()).writeTo(self.table).append()

    def update(self, number: int) -> Mapping[str, object]:
        changed = self.spark.sql(f"SELECT DISTINCT driver, day FROM {TRIP} WHERE round = {number}").persist()
        changed.createOrReplaceTempView("changed")
        days = ", ".join(str(row.day) for row in changed.select("day").distinct().collect()) or "NULL"
        fresh = _query().replace(
            "WHERE", f"LEFT SEMI JOIN changed c ON c.driver = t.driver AND c.day = t.day WHERE t.day IN ({days}) AND"
        )
        self.spark.sql(
            f"MERGE INTO {self.table} AS m USING ({fresh}) AS s "
            f"ON m.driver = s.driver AND m.day = s.day AND m.day IN ({days}) "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        changed.unpersist()
        return {}


SYSTEMS = ("incremental", "full", "lookback", "merge")


def start_systems(
    names: Sequence[str], stage: Stage, optimizer: Working, size: Size, scratch: Path
) -> dict[str, System]:
    """The systems of these names."""
    spark = stage.spark
    systems: dict[str, System] = {
        "incremental": FirnIncremental(spark, stage.server, optimizer, scratch / PIPELINE),
        "full": FullRecompute(spark),
        "lookback": LookBack(spark, size),
        "merge": MergeByHand(spark),
    }
    return {name: systems[name] for name in SYSTEMS if name in names}
