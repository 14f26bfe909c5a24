"""Hudi beside Firn: what a Hudi Streamer does in a sync, written with Hudi's data source for Spark.

The bundle with the Streamer itself (`hudi-utilities`) cannot be had everywhere. A sync here is that of its
`HoodieIncrSource` with a SQL transformer: the increment of one table since the checkpoint, the groups that it touches
from the whole tables, an upsert. Its only freedom beyond that helps it: it names the partitions that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.etl.data import COLUMNS, DRIVER, FRESH, INPUTS, QUERY, TRIP, Round, Size, select_drivers, select_trips
from bench.etl.spark_counts import SparkCounts
from tests.integration.engines.spark import SparkBeside

KEYS = {"trip": "id", "driver": "driver"}
OUTPUT = [column.split()[0] for column in COLUMNS.split(", ")]


@dataclass
class HudiSync:
    """A table of Hudi, which follows one stream of increments: that of trips. It has inputs of its own, in Hudi."""

    spark: SparkSession
    hudi: SparkBeside
    folder: Path
    size: Size
    is_exact = False
    _checkpoint = ""

    def prepare(self) -> None:
        """Fill the inputs with the rows that those of the other systems have."""
        columns = {name.partition(".")[2]: dict(kinds) for name, kinds in INPUTS.items()}
        self._run("create_inputs", str(self.folder), columns, KEYS, self.size.buckets)
        self._run("insert", "driver", list(columns["driver"]), select_drivers(self.size))
        trips = select_trips(self.size, 0, self.size.per_day * self.size.days, 0)
        self._run("insert", "trip", list(columns["trip"]), trips)

    def create(self) -> None:
        """Write all rows."""
        self._checkpoint = self._run("build", str(self.folder), QUERY.format(trip="trip", driver="driver"))

    def change(self, step: Round) -> None:
        """Bring a round's changes into the inputs."""
        for statement in step.statements:
            own = statement.replace(TRIP, "trip").replace(DRIVER, "driver")
            if own.startswith("INSERT INTO trip "):
                self._run("insert", "trip", list(INPUTS["etl.trip"]), own.removeprefix("INSERT INTO trip "))
            else:
                self.hudi.rows(own)

    def update(self, number: int) -> Mapping[str, object]:  # noqa: ARG002 -- other systems need it
        """One sync."""
        query = FRESH.format(trip="trip", driver="driver", days="{days}")
        self._checkpoint, groups = self._run("sync", str(self.folder), self._checkpoint, query)
        return {"keys": groups}

    def describe(self) -> Mapping[str, object]:
        """Nothing more."""
        return {}

    def count(self) -> SparkCounts:
        """The totals of the other Spark."""
        code = "from bench.etl.spark_counts import read_counts\ncounts = read_counts(spark)"
        fields = "[counts.jobs, counts.input_bytes, counts.shuffle_bytes]"
        return SparkCounts(*self.hudi.run(f"{code}\nanswer = {fields}"))

    def read(self) -> DataFrame:
        """The rows, by way of a copy that this Spark can read."""
        copied = self.folder / "copied"
        self._run("export", str(self.folder), OUTPUT, str(copied))
        return self.spark.read.parquet(str(copied))

    def _run(self, function: str, *arguments: object) -> Any:
        """Call a function of `hudi_sync` in the other process."""
        return self.hudi.run(f"from bench.etl import hudi_sync\nanswer = hudi_sync.{function}(spark, *{arguments!r})")
