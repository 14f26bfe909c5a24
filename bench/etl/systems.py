"""The ways to keep the table: Firn's runs, full recomputation, a look-back of 30 days, MERGE INTO by hand, and peers.

The peers are Hudi (`hudi`) and Spark's own pipelines (`declarative`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.etl.data import (
    CATALOG,
    COLUMNS,
    DRIVER,
    FRESH,
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
from bench.etl.declarative import SparkPipeline, spark_connect
from bench.etl.hudi import HudiSync
from bench.etl.interface import InLake, System
from bench.hudi_spark import hudi_spark
from bench.keyed import Stage
from bench.running import RunningServer
from bench.working import Working
from firn.pipelines import build_put, read_folder
from firn.spark.sessions import catalog_conf
from optimizer.spark import SETTINGS


def _query() -> str:
    return QUERY.format(trip=TRIP, driver=DRIVER)


def _create_plain(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (day) "
        f"TBLPROPERTIES ('format-version' = '3', {MODES})"
    )


@dataclass
class FirnIncremental(InLake):
    """Runs of a pipeline into a keyed table, each with the merge of its changes."""

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
class FullRecompute(InLake):
    """All rows, in one overwrite."""

    table = f"{NAMESPACE}.full"
    is_exact = True

    def create(self) -> None:
        _create_plain(self.spark, self.table)
        self.update(0)

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        self.spark.sql(_query()).writeTo(self.table).overwrite(F.lit(True))
        return {}


@dataclass
class LookBack(InLake):
    """The rows of the last 30 days, in one overwrite. It never sees an older change."""

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
class MergeByHand(InLake):
    """MERGE INTO of the groups whose trips carry the number of the round: what an author can see without deletes."""

    table = f"{NAMESPACE}.merged"
    is_exact = False

    def create(self) -> None:
        _create_plain(self.spark, self.table)
        self.spark.sql(_query()).writeTo(self.table).append()

    def update(self, number: int) -> Mapping[str, object]:
        changed = self.spark.sql(f"SELECT DISTINCT driver, day FROM {TRIP} WHERE round = {number}").persist()
        changed.createOrReplaceTempView("changed")
        days = ", ".join(str(row.day) for row in changed.select("day").distinct().collect()) or "NULL"
        fresh = FRESH.format(trip=TRIP, driver=DRIVER, days=days)
        self.spark.sql(
            f"MERGE INTO {self.table} AS m USING ({fresh}) AS s "
            f"ON m.driver = s.driver AND m.day = s.day AND m.day IN ({days}) "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        changed.unpersist()
        return {}


@contextmanager
def start_systems(
    names: Sequence[str], stage: Stage, optimizer: Working, size: Size, scratch: Path, *, memory: str
) -> Iterator[dict[str, System]]:
    """The systems of these names, with what they run in. Each can read its inputs."""
    spark = stage.spark
    with ExitStack() as ends:

        def start_hudi() -> System:
            java = {"spark.driver.defaultJavaOptions": str(SETTINGS["spark.driver.defaultJavaOptions"])}
            older = ends.enter_context(hudi_spark(scratch / "hudi.log", memory, java))
            hudi = HudiSync(spark, older, scratch / "hudi", size)
            hudi.prepare()
            return hudi

        def start_pipeline() -> System:
            remote = ends.enter_context(spark_connect(spark))
            return SparkPipeline(spark, remote, scratch / "declarative", catalog_conf(stage.server.client, CATALOG))

        starters: dict[str, Callable[[], System]] = {
            "incremental": lambda: FirnIncremental(spark, stage.server, optimizer, scratch / PIPELINE),
            "full": lambda: FullRecompute(spark),
            "lookback": lambda: LookBack(spark, size),
            "merge": lambda: MergeByHand(spark),
            "hudi": start_hudi,
            "spark-pipelines": start_pipeline,
        }
        yield {name: starters[name]() for name in SYSTEMS if name in names}


SYSTEMS = ("incremental", "full", "lookback", "merge", "hudi", "spark-pipelines")
