"""Hudi's side of `bench.stream`; it runs by the Python of PySpark 3.5, which knows none of Firn's modules."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.streaming import StreamingQuery

OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ord",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.partitionpath.field": "",
}


def main(config: dict[str, Any]) -> None:
    """Upsert all records of the topic, then answer each line of standard input with what a scan adds up to."""
    settings = {
        "spark.jars": config["jars"],
        "spark.driver.memory": config["memory"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": config["scratch"],
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    spark = SparkSession.builder.master("local[2]").appName("hudi").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    query = start(spark, config)
    say("ready")
    wait(query, config["records"])
    query.stop()
    say("done")
    for _ in sys.stdin:
        rows = spark.read.format("hudi").load(config["table"])
        row = rows.agg(F.count("*"), F.sum("qty"), F.sum("amount")).collect()[0]
        say("totals", totals=[int(value) for value in row])


def start(spark: SparkSession, config: dict[str, Any]) -> StreamingQuery:
    """Start the query. Offsets order the records of a key, because a key has one partition."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", config["brokers"])
    records = source.option("subscribe", config["topic"]).option("startingOffsets", "earliest").load()
    value = F.from_json(F.col("value").cast("string"), config["columns"]).alias("v")
    rows = records.select(F.col("offset").alias("ord"), value).select("v.*", "ord")
    writer = rows.writeStream.format("hudi").options(**{**OPTIONS, **config["options"]})
    writer = writer.option("path", config["table"]).option("checkpointLocation", config["checkpoint"])
    return writer.outputMode("append").trigger(processingTime=f"{config['every']} seconds").start()


def wait(query: StreamingQuery, records: int) -> None:
    """Wait until the query has committed so many records; its own error if it fails."""
    seen: dict[int, int] = {}
    while sum(seen.values()) < records:
        time.sleep(0.5)
        error = query.exception()
        if error is not None:
            raise error
        for progress in query.recentProgress:
            seen[int(progress["batchId"])] = max(int(progress["numInputRows"]), seen.get(int(progress["batchId"]), 0))


def say(event: str, **fields: object) -> None:
    """A line for the parent."""
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
