"""Looks at all records of a range of a topic, in Spark, before any of them is brought to a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.logs import LogBatch
from firn.protocol.cdc.observation import Observation
from firn.spark.cdc_records import use_own_python
from firn.spark.log_records import read_records

if TYPE_CHECKING:
    import pyarrow as pa


def observe_range(spark: SparkSession, batch: LogBatch, options: dict[str, str], format: str) -> Observation:
    """Look at the records of a range. `options` are those of Spark's connector."""
    use_own_python(spark)
    records = read_records(spark, batch, options).select("key", "value")
    observation = Observation()
    for row in records.mapInArrow(build_observer(format), "document string").collect():
        observation.merge(Observation.read(json.loads(row["document"])))
    return observation


def build_observer(format: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for Spark's Python tasks: it gives one document for all records of a task."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- Spark's Python tasks have it; a driver need not

        observation = Observation()
        for batch in batches:
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                observation.add(format, key, value)
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(observation.to_json())]})

    return look
