"""What Spark itself counts: jobs, and the bytes that its tasks read and shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkCounts:
    """Totals of a Spark context since it started, or between two moments."""

    jobs: int
    input_bytes: int
    shuffle_bytes: int

    def __sub__(self, other: SparkCounts) -> SparkCounts:
        """What has come since."""
        return SparkCounts(
            self.jobs - other.jobs, self.input_bytes - other.input_bytes, self.shuffle_bytes - other.shuffle_bytes
        )

    def to_json(self) -> dict[str, object]:
        """As a line of results has it."""
        return {
            "jobs": self.jobs,
            "input_mib": round(self.input_bytes / 2**20, 1),
            "shuffle_mib": round(self.shuffle_bytes / 2**20, 1),
        }


def read_counts(spark: SparkSession) -> SparkCounts:
    """The totals of now, after Spark's listeners have heard of all tasks."""
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty()
    store = context.sc().statusStore()
    executors = store.executorList(False)  # those that have ended, too
    every = [executors.apply(number) for number in range(executors.size())]
    return SparkCounts(
        jobs=_count_jobs(context),
        input_bytes=sum(int(executor.totalInputBytes()) for executor in every),
        shuffle_bytes=sum(int(executor.totalShuffleWrite()) for executor in every),
    )


def _count_jobs(context: Any) -> int:
    """The number of jobs so far: ids count from 0."""
    jobs = context.sc().statusStore().jobsList(None)
    return max((int(jobs.apply(number).jobId()) for number in range(jobs.size())), default=-1) + 1
