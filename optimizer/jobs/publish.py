"""Publish: partitions are written as Hive reads them; the server registers the files and points Hive there.

Plain files in Hive's layout and in the format that each partition has there, by Hive's names and types and without its
partition columns. Each attempt has a directory of its own: what one that died has left is nobody's.
"""

# ruff: noqa: S608 -- SQL of a quoted name and a number

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import BinaryType, DataType

from firn.protocol.leases import Lease, Outcome, Result
from firn.protocol.names import quote_name
from firn.protocol.tasks.merge import PartitionField
from firn.protocol.tasks.publish import Partition, PublishReport, PublishTask
from firn.spark.local_frames import create_local_frame
from optimizer.avro_writing import AvroColumn, find_lost_values, write_avro
from optimizer.errors import Refused
from optimizer.hive_rows import check_zone, spark_type
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.partitions import predicate
from optimizer.read_checks import JobReads, TableRead

ANSWER_SECONDS = 900.0
"""The server reads the footers of all files before it answers."""
_COMPRESSION = {"PARQUET": "snappy", "ORC": "zlib"}
"""Hive 2 and 3 do not know Spark's own choice for ORC."""


@dataclass(frozen=True)
class _Written:
    """The written rows of one format, and the partitions that Hive cannot represent, with the reason."""

    rows: int
    unrepresentable: Sequence[str] = ()
    reason: str = ""


def run(work: JobRun) -> Result:
    """Write the partitions, then let the server register the files and repoint Hive."""
    task = PublishTask.model_validate(work.lease.task)
    location = f"{task.root}/{work.lease.attempt}"
    work.keeper.stage("writing for Hive")
    work.keeper.say(f"{len(task.partitions)} partitions that Hive does not have as they are")
    if task.private:
        _make_private(work, task.root)
    formats = sorted({partition.format for partition in task.partitions})
    written = [_write(work, task, form, location) for form in formats]
    rows = sum(part.rows for part in written)
    unrepresentable = [name for part in written for name in part.unrepresentable]
    reason = ", ".join(part.reason for part in written if part.unrepresentable)
    waits = {"waits": _explain_waits(sorted(unrepresentable), reason)} if unrepresentable else {}
    for message in waits.values():
        work.keeper.say(message)
    if len(unrepresentable) == len(task.partitions):  # the server records it and plans no other publish
        answer = work.api.publish(
            work.lease, location, rows=0, unrepresentable=unrepresentable, reason=reason, seconds=ANSWER_SECONDS
        )
        return Result(outcome=Outcome.NOTHING, result=answer | waits)
    _make_empty(work, task, location)
    work.keeper.check()
    work.keeper.stage("publishing")
    answer = work.commit(
        lambda: work.api.publish(
            work.lease, location, rows=rows, unrepresentable=unrepresentable, reason=reason, seconds=ANSWER_SECONDS
        )
    )
    done = PublishReport.model_validate(answer)
    work.keeper.say(f"{done.switched} partitions switched, {done.rows} rows")
    return Result(outcome=Outcome.COMMITTED, result=done.model_dump() | waits)


def _rows(work: JobRun, task: PublishTask, partitions: Sequence[Partition]) -> DataFrame:
    """The rows of these partitions as Hive has them, its partition columns last."""
    base = _read(work, task)
    columns = [
        F.col(quote_name(_require_column(column.name))).cast(spark_type(column.type)).alias(column.hive)
        for column in task.columns
    ]
    columns += [F.col(quote_name(name)) for name in task.own_columns]
    parts = [
        F.col(quote_name(_require_column(partition_column.name))).alias(partition_column.hive)
        for partition_column in task.partition_columns
    ]
    if not parts:
        return base.select(*columns).hint("rebalance")
    names = [_require_column(partition_column.name) for partition_column in task.partition_columns]
    fields = [PartitionField(column=name, transform="identity", type="") for name in names]
    types = [base.schema[name].dataType.simpleString() for name in names]
    where = predicate(fields, types, [tuple(partition.values) for partition in partitions], limit=None)
    if where is None:
        raise Refused("a partition has a value that no predicate can name")
    by: list[Column] = [F.col(quote_name(partition_column.hive)) for partition_column in task.partition_columns]
    return base.where(where).select(*columns, *parts).hint("rebalance", *by)


def _read(work: JobRun, task: PublishTask) -> DataFrame:
    """Read the table at the planned snapshot, without later commits."""
    name = work.session.name(task.base)
    if task.snapshot is None:
        return work.session.spark.table(name)
    return work.session.spark.sql(f"SELECT * FROM {name} VERSION AS OF {task.snapshot}")


def _write(work: JobRun, task: PublishTask, form: str, location: str) -> _Written:
    """The partitions of one format, decimals and timestamps as Hive 2 and 3 read them."""
    if form != "PARQUET":
        check_zone(work.session, task.columns)
    partitions = [partition for partition in task.partitions if partition.format == form]
    rows, partitioned_by = (
        _rows(work, task, partitions),
        [partition_column.hive for partition_column in task.partition_columns],
    )
    if form == "AVRO":
        return _write_avro(work, task, partitions, rows, location)
    conf = work.session.spark.conf
    conf.set("spark.sql.parquet.writeLegacyFormat", str(_has_decimals(task)).lower())
    conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    for rebase in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
        conf.set(f"spark.sql.parquet.{rebase}", "CORRECTED")
    counted = Observation()
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    writer = observed.write.format(form.lower()).option("compression", _COMPRESSION[form]).mode("append")
    writer.partitionBy(*partitioned_by).save(location)
    return _Written(int(counted.get["rows"]))


def _write_avro(
    work: JobRun, task: PublishTask, partitions: Sequence[Partition], rows: DataFrame, location: str
) -> _Written:
    """As Hive's own serializer does; partitions are left out whose values it would have changed."""
    kinds = {column.hive: DataType.fromDDL(column.type) for column in task.columns}
    kinds |= {name: rows.schema[name].dataType for name in task.own_columns}
    columns = [AvroColumn.of(name, kind) for name, kind in kinds.items()]
    lost = list(find_lost_values(columns))
    counted = Observation()
    counts = [F.count_if(rule).alias(f"lost {at}") for at, (_, _, rule) in enumerate(lost)]
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"), *counts)
    write_avro(
        work.session,
        observed,
        columns,
        [partition_column.hive for partition_column in task.partition_columns],
        location,
    )
    counts_by_name = counted.get
    units = [
        f"{counts_by_name[f'lost {at}']} rows have a value in {column.name} that is {problem}"
        for at, (column, problem, _) in enumerate(lost)
        if counts_by_name[f"lost {at}"]
    ]
    if not units:
        return _Written(int(counts_by_name["rows"]))
    by_partition = _count_losing_rows(work, task, partitions, rows, reduce(or_, (rule for _, _, rule in lost)))
    return _Written(int(counts_by_name["rows"]) - sum(by_partition.values()), sorted(by_partition), ", ".join(units))


def _explain_waits(names: Sequence[str], reason: str) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{f'partition {names[0]}' if names[0] else 'the table'}{more} cannot be published in Avro, which Hive would "
        f"read otherwise: {reason}. Change these values, or have Hive write there in Parquet or ORC"
    )


def _count_losing_rows(
    work: JobRun, task: PublishTask, partitions: Sequence[Partition], rows: DataFrame, is_lost: Column
) -> dict[str, int]:
    """Count the rows of each partition that has a row which Hive would change."""
    columns = [partition_column.hive for partition_column in task.partition_columns]
    texts = ", ".join(["name string", *(f"value{at} string" for at in range(len(columns)))])
    names = [(partition.name, *partition.values) for partition in partitions]
    named = create_local_frame(work.session.spark, names, texts)
    same = [
        F.col(quote_name(name)).eqNullSafe(_cast_value(F.col(f"_firn.value{at}"), rows.schema[name].dataType))
        for at, name in enumerate(columns)
    ]
    marked = rows.select(is_lost.alias("_firn_lost"), *[F.col(quote_name(name)) for name in columns])
    joined = marked.join(F.broadcast(named.alias("_firn")), reduce(and_, same, F.lit(True)))
    counted = joined.groupBy("_firn.name").agg(F.count(F.lit(1)).alias("rows"), F.count_if("_firn_lost").alias("lost"))
    return {str(partition["name"]): int(partition["rows"]) for partition in counted.where("lost > 0").collect()}


def _cast_value(text: Column, kind: DataType) -> Column:
    """Cast a partition's value to the type of its column."""
    return F.unhex(text) if isinstance(kind, BinaryType) else text.cast(kind)


def _has_decimals(task: PublishTask) -> bool:
    return any("decimal" in column.type.lower() for column in task.columns)


def _make_private(work: JobRun, root: str) -> None:
    """Create a directory that only this user may enter. Object stores ignore the mode."""
    files = work.session.jvm.org.apache.hadoop.fs
    filesystem = _open_file_system(work, root)
    filesystem.mkdirs(files.Path(root))
    filesystem.setPermission(files.Path(root), files.permission.FsPermission("700"))


def _open_file_system(work: JobRun, location: str) -> Any:
    path = work.session.jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(work.session.spark._jsc.hadoopConfiguration())


def _make_empty(work: JobRun, task: PublishTask, location: str) -> None:
    """Directories for partitions that have no rows any more: Hive is pointed at one that is there."""
    files = work.session.jvm.org.apache.hadoop.fs
    filesystem = _open_file_system(work, location)
    for partition in task.partitions:
        if partition.name and not filesystem.exists(files.Path(f"{location}/{partition.name}")):
            filesystem.mkdirs(files.Path(f"{task.root}/empty/{partition.name}"))
    if not task.partition_columns:
        filesystem.mkdirs(files.Path(f"{task.root}/empty"))


def _require_column(name: str | None) -> str:
    if name is None:
        raise Refused("Hive has a column that the table has no more")
    return name


def reads(lease: Lease) -> JobReads:
    """The snapshot of base that Hive is given."""
    task = PublishTask.model_validate(lease.task)
    return JobReads(tables=[TableRead(parts=task.base, snapshot_id=task.snapshot)])


JOB = OptimizerJob(run, reads)
