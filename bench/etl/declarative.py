"""Spark's own pipelines beside Firn: a materialized view that `spark-pipelines run` refreshes.

The runner is a client of Spark Connect. Here it speaks to the Spark that all other systems use, so that no start of a
JVM counts; what Python itself takes does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from bench.etl.data import CATALOG, DRIVER, NAMESPACE, QUERY, TRIP
from bench.etl.interface import InLake
from tests.integration.pipelines.spark_runner import CONNECT

NAME = "by_spark"
RUN_SECONDS = 3600


@contextmanager
def spark_connect(spark: SparkSession) -> Iterator[str]:
    """Let this Spark answer clients of Spark Connect on a free port of loopback; the address."""
    jvm: Any = spark.sparkContext._jvm
    assert jvm is not None
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    conf.set("spark.connect.grpc.binding.address", "127.0.0.1")
    conf.set("spark.connect.grpc.binding.port", "0")
    service = _module(jvm.org.apache.spark.sql.connect.service, "SparkConnectService")
    nothing = _module(jvm.scala, "None")
    service.start(spark.sparkContext._jsc.sc())
    try:
        yield f"sc://127.0.0.1:{service.localPort()}"
    finally:
        service.stop(nothing, nothing)


def _module(package: Any, name: str) -> Any:
    """An object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


@dataclass
class SparkPipeline(InLake):
    """A materialized view. Each run of Spark deletes its rows, and then computes all of them."""

    remote: str
    folder: Path
    settings: Mapping[str, str]
    """With which a session knows the catalog."""
    table = f"{NAMESPACE}.{NAME}"
    is_exact = True

    def create(self) -> None:
        """Write the folder, and run the pipeline for the first time."""
        spec = {
            "name": NAME,
            "storage": (self.folder / "storage").as_uri(),
            "catalog": CATALOG,
            "database": NAMESPACE.partition(".")[2],
            "configuration": dict(self.settings),
            "libraries": [{"glob": {"include": "transformations/**"}}],
        }
        (self.folder / "transformations").mkdir(parents=True)
        (self.folder / "spark-pipeline.yml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        (self.folder / "transformations" / "tables.sql").write_text(
            f"CREATE MATERIALIZED VIEW {NAME} PARTITIONED BY (day) AS {QUERY.format(trip=TRIP, driver=DRIVER)};\n",
            encoding="utf-8",
        )
        self._run()

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        """One run of the pipeline."""
        self._run()
        return {}

    def describe(self) -> Mapping[str, object]:
        """For how long a reader saw no row during the last run, by the last two commits; nothing if it saw some."""
        commits = self.spark.sql(
            "SELECT unix_millis(committed_at) AS at, CAST(summary['total-records'] AS BIGINT) AS total "
            f"FROM {self.table}.snapshots ORDER BY committed_at DESC LIMIT 2"
        ).collect()
        after, before = commits
        return {"empty_s": round((after.at - before.at) / 1000, 1)} if before.total == 0 else {}

    def _run(self) -> None:
        """As `spark-pipelines run` does, without the JVM that starts the Python program."""
        done = subprocess.run(
            [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(CONNECT), "SPARK_REMOTE": self.remote, "no_proxy": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"Spark's runner has failed: {done.stdout[-3000:]}{done.stderr[-3000:]}")
