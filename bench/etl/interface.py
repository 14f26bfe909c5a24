"""What the benchmark asks of each way to keep the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from bench.etl.data import Round
from bench.etl.spark_counts import SparkCounts, read_counts


class System(Protocol):
    """One way."""

    is_exact: bool
    """Whether its table has to be that of a full computation."""

    def create(self) -> None:
        """Create the table, and fill it for the first time."""

    def change(self, step: Round) -> None:
        """Bring a round's changes into inputs of its own."""

    def update(self, number: int) -> Mapping[str, object]:
        """Bring the table up to date after a round; return what there is to say of it."""

    def describe(self) -> Mapping[str, object]:
        """What the table tells of the last update, which costs nothing."""

    def read(self) -> DataFrame:
        """The rows that readers see."""

    def count(self) -> SparkCounts:
        """What its Spark has counted so far."""


@dataclass
class InLake:
    """A system in the common Spark, on the common inputs."""

    spark: SparkSession
    table = ""

    def change(self, step: Round) -> None:
        """Nothing: the inputs are those of all such systems."""

    def describe(self) -> Mapping[str, object]:
        """Nothing more."""
        return {}

    def read(self) -> DataFrame:
        """The rows of the table."""
        return self.spark.table(self.table)

    def count(self) -> SparkCounts:
        """The totals of the common Spark."""
        return read_counts(self.spark)
