"""Publish: partitions are written as Hive reads them; the server registers the files and points Hive there.

Plain files in Hive's layout and in the format that each partition has there, by Hive's names and types and without its
partition columns. Each attempt has a directory of its own: what one that died has left is nobody's.
"""

# ruff: noqa: S608 -- SQL of a quoted name and a number

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.names import quoted
from optimizer.errors import Refused
from optimizer.hive_rows import check_zone, spark_type
from optimizer.partitions import predicate
from optimizer.publish_task import Partition, Published, PublishTask
from optimizer.wire import Outcome, PartitionField, Result
from optimizer.work import Work

ANSWER_SECONDS = 900.0
"""The server reads the footers of all files before it answers."""
_COMPRESSION = {"PARQUET": "snappy", "ORC": "zlib"}
"""Hive 2 and 3 do not know Spark's own choice for ORC."""


def run(work: Work) -> Result:
    """Write, then have the server register what was written."""
    task = PublishTask.model_validate(work.lease.task)
    location = f"{task.root}/{work.lease.attempt}"
    work.hold.stage("writing for Hive")
    work.hold.say(f"{len(task.partitions)} partitions that Hive does not have as they are")
    formats = sorted({one.format for one in task.partitions})
    rows = sum(_write(work, task, form, location) for form in formats)
    _make_empty(work, task, location)
    work.hold.check()
    work.hold.stage("publishing")
    told = work.commit(lambda: work.api.publish(work.lease, location, rows=rows, seconds=ANSWER_SECONDS))
    done = Published.model_validate(told)
    work.hold.say(f"{done.switched} partitions switched, {done.rows} rows")
    return Result(outcome=Outcome.COMMITTED, result=done.model_dump())


def _rows(work: Work, task: PublishTask, partitions: Sequence[Partition]) -> DataFrame:
    """The rows of these partitions as Hive has them, its partition columns last."""
    base = _read(work, task)
    columns = [F.col(quoted(_known(one.name))).cast(spark_type(one.type)).alias(one.hive) for one in task.columns]
    columns += [F.col(quoted(name)) for name in task.own_columns]
    parts = [F.col(quoted(_known(one.name))).alias(one.hive) for one in task.partition_columns]
    if not parts:
        return base.select(*columns).hint("rebalance")
    names = [_known(one.name) for one in task.partition_columns]
    fields = [PartitionField(column=name, transform="identity", type="") for name in names]
    types = [base.schema[name].dataType.simpleString() for name in names]
    where = predicate(fields, types, [tuple(one.values) for one in partitions], limit=None)
    if where is None:
        raise Refused("a partition has a value that no predicate can name")
    by: list[Column] = [F.col(quoted(one.hive)) for one in task.partition_columns]
    return base.where(where).select(*columns, *parts).hint("rebalance", *by)


def _read(work: Work, task: PublishTask) -> DataFrame:
    """The table as it was planned by, whatever has come to it since."""
    name = work.session.name(task.base)
    if task.snapshot is None:
        return work.session.spark.table(name)
    return work.session.spark.sql(f"SELECT * FROM {name} VERSION AS OF {task.snapshot}")


def _write(work: Work, task: PublishTask, form: str, location: str) -> int:
    """The partitions of one format, decimals and timestamps as Hive 2 and 3 read them; how many rows were written."""
    if form == "ORC":
        check_zone(work.session, task.columns)
    rows = _rows(work, task, [one for one in task.partitions if one.format == form])
    conf = work.session.spark.conf
    conf.set("spark.sql.parquet.writeLegacyFormat", str(_has_decimals(task)).lower())
    conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    for rebase in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
        conf.set(f"spark.sql.parquet.{rebase}", "CORRECTED")
    counted = Observation()
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    writer = observed.write.format(form.lower()).option("compression", _COMPRESSION[form]).mode("append")
    writer.partitionBy(*[one.hive for one in task.partition_columns]).save(location)
    return int(counted.get["rows"])


def _has_decimals(task: PublishTask) -> bool:
    return any("decimal" in column.type.lower() for column in task.columns)


def _make_empty(work: Work, task: PublishTask, location: str) -> None:
    """Directories for partitions that have no rows any more: Hive is pointed at one that is there."""
    files = work.session.jvm.org.apache.hadoop.fs
    conf = work.session.spark._jsc.hadoopConfiguration()
    filesystem = files.Path(location).getFileSystem(conf)
    for one in task.partitions:
        if one.name and not filesystem.exists(files.Path(f"{location}/{one.name}")):
            filesystem.mkdirs(files.Path(f"{task.root}/empty/{one.name}"))
    if not task.partition_columns:
        filesystem.mkdirs(files.Path(f"{task.root}/empty"))


def _known(name: str | None) -> str:
    if name is None:
        raise Refused("Hive has a column that the table has no more")
    return name
