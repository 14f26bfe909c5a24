"""What the process of Spark 3.5 does with Hudi: inputs, a full build, and syncs. This module imports only PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

TABLE = {
    "hoodie.table.name": "by_hudi",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.recordkey.field": "driver,day",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.bucket.index.hash.field": "driver",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
}
"""The target. Its partitions are small, so that to rewrite one costs less than to merge its log later."""
INPUT = "'type' = 'cow', 'hoodie.index.type' = 'BUCKET', 'hoodie.index.bucket.engine' = 'SIMPLE'"


def create_inputs(
    spark: SparkSession, folder: str, columns: Mapping[str, Mapping[str, str]], keys: Mapping[str, str], buckets: int
) -> None:
    """Create the empty inputs under their names without namespace; a column `day` partitions a table."""
    spark.conf.set("hoodie.metadata.enable", "false")  # to list few local directories costs less
    spark.conf.set("hoodie.spark.sql.insert.into.operation", "bulk_insert")
    for name, kinds in columns.items():
        listed = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
        parts = "PARTITIONED BY (day) " if "day" in kinds else ""
        spark.sql(
            f"CREATE TABLE {name} ({listed}) USING hudi {parts}LOCATION '{Path(folder, name)}' TBLPROPERTIES "
            f"({INPUT}, 'hoodie.bucket.index.num.buckets' = '{buckets}', 'primaryKey' = '{keys[name]}')"
        )


def insert(spark: SparkSession, table: str, columns: Sequence[str], query: str) -> None:
    """Append the rows of a query, whose columns have this order. Hudi's own order has partitions last."""
    rows = spark.sql(query).toDF(*columns)
    own = [name for name in spark.table(table).columns if not name.startswith("_hoodie_")]
    rows.select(*own).createOrReplaceTempView("new_rows")
    spark.sql(f"INSERT INTO {table} SELECT * FROM new_rows")


def build(spark: SparkSession, folder: str, query: str) -> str:
    """Write the rows of a full computation; the checkpoint of the next sync."""
    checkpoint = _newest_commit(spark)
    options = {**TABLE, "hoodie.datasource.write.operation": "bulk_insert"}
    spark.sql(query).write.format("hudi").options(**options).mode("overwrite").save(f"{folder}/by_hudi")
    return checkpoint


def sync(spark: SparkSession, folder: str, checkpoint: str, query: str) -> tuple[str, int]:
    """Upsert what the increment of trips since a checkpoint touches; the next checkpoint, and the number of groups.

    `query` computes the groups of the view `changed`, of the trips in `{days}`.
    """
    end = _newest_commit(spark)
    span = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": checkpoint,
        "hoodie.datasource.read.end.instanttime": end,
    }
    increment = spark.read.format("hudi").options(**span).load(f"{folder}/trip")
    changed = increment.select("driver", "day").distinct().persist()
    changed.createOrReplaceTempView("changed")
    days = [str(row.day) for row in changed.select("day").distinct().collect()]
    if days:
        options = {**TABLE, "hoodie.datasource.write.operation": "upsert"}
        groups = spark.sql(query.replace("{days}", ", ".join(days)))
        groups.write.format("hudi").options(**options).mode("append").save(f"{folder}/by_hudi")
    count = changed.count()
    changed.unpersist()
    return end, count


def export(spark: SparkSession, folder: str, columns: Sequence[str], target: str) -> None:
    """Write the rows of the target as plain Parquet, which the other Spark reads."""
    rows = spark.read.format("hudi").load(f"{folder}/by_hudi").select(*columns)
    rows.write.mode("overwrite").parquet(target)


def _newest_commit(spark: SparkSession) -> str:
    """When the newest commit of trips was completed: increments begin after such a time and end with it."""
    rows = spark.sql("CALL show_commits(table => 'trip', limit => 1)").collect()
    return str(rows[0]["state_transition_time"])
