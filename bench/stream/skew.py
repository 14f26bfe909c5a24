"""Large writes with 90 % of the rows in one of 29 partitions: rows of each task, and files."""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.report import Report
from bench.stream.records import COLUMNS, DAYS, Upserts
from bench.stream.stage import Stage, stage
from firn.spark.log_drain import drain
from firn.spark.write import upsert

ROWS_AIM, FILES_PER_PARTITION_AIM = 1.3, 1.5


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """The same rows by `upsert`, by a drain, and as Iceberg spreads them by itself."""
    report = Report("stream-skew", records=options.records, days=DAYS, tasks=options.tasks, memory=options.memory)
    upserts = Upserts(options.records, unique=True)
    with stage(scratch, options.memory) as running:
        running.spark.conf.set("spark.sql.shuffle.partitions", str(options.tasks))
        topic = running.fill_topic(upserts, options.records, options.partitions)
        for way in ("upsert", "drain", "iceberg"):
            table = _write(running, way, topic)
            running.check(table if way == "iceberg" else f"{table}.merged", upserts.totals())
            files = running.spark.table(f"{table}.files" if way == "iceberg" else f"{table}.change.files")
            report.line("write", way=way, **describe(files))
    return report


def _write(running: Stage, way: str, topic: str) -> str:
    """A new table with all rows of the topic."""
    value = F.from_json(F.col("value").cast("string"), COLUMNS).alias("v")
    rows = running.read_topic(topic).select(value).select("v.*")
    if way == "iceberg":
        running.spark.sql("DROP TABLE IF EXISTS lake.db.plain")
        running.spark.sql(f"CREATE TABLE lake.db.plain ({COLUMNS}) USING iceberg PARTITIONED BY (day)")
        rows.writeTo("lake.db.plain").append()
        return "lake.db.plain"
    table = running.create_table(topic, partitioned=True)
    if way == "upsert":
        upsert(rows, table)
    else:
        drain(table, running.spark)
    return table


def describe(files: DataFrame) -> dict[str, object]:
    """Rows of the largest and of the median task, and files beside the aim. A file's name begins with its task."""
    tasks: Counter[str] = Counter()
    paths = files.where("content = 0").select("file_path", "record_count").collect()
    for path, records in paths:
        tasks[str(path).rpartition("/")[2].partition("-")[0]] += records
    largest, middle = max(tasks.values()), statistics.median(tasks.values())
    most = round(FILES_PER_PARTITION_AIM * DAYS + len(tasks))
    return {
        "tasks": len(tasks),
        "rows_of_largest_over_median": round(largest / middle, 2),
        "aim": ROWS_AIM,
        "files": len(paths),
        "files_aim": most,
    }
