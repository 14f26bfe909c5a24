"""Looks at all records of a range of a topic, in Spark, before any of them is brought to a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.logs import LogBatch
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.debezium import Reader
from firn.protocol.cdc.observation import Observation
from firn.protocol.envelope_readers import build_reader
from firn.spark.avro_schemas import list_ids
from firn.spark.cdc_records import use_own_python
from firn.spark.log_records import read_records

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.protocol.avro.decoding import Schemas

LoadSchemas = Callable[[list[int]], "Schemas"]
"""Loads the Avro schemas of some ids; those that the registry does not have may be missing."""


def observe_range(
    spark: SparkSession, batch: LogBatch, options: dict[str, str], format: str, load_schemas: LoadSchemas
) -> Observation:
    """Look at the records of a range. `options` are those of Spark's connector.

    Records in Avro are read once more before, for the ids of their schemas, which `load_schemas` then loads.
    """
    use_own_python(spark)
    records = read_records(spark, batch, options).select("key", "value")
    # Nobody reads the key of a tombstone.
    ids = list_ids(records.where("value IS NOT NULL")) if format in AVRO_FORMATS else []
    reader = build_reader(format, load_schemas(ids))
    observation = Observation()
    for row in records.mapInArrow(build_observer(reader), "document string").collect():
        observation.merge(Observation.read(json.loads(row["document"])))
    return observation


def build_observer(read: Reader) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for Spark's Python tasks: it gives one document for all records of a task."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- Spark's Python tasks have it; a driver need not

        observation = Observation()
        for batch in batches:
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                observation.add(read, key, value)
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(observation.to_json())]})

    return look
