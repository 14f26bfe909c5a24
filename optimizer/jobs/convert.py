"""Convert: all rows of a Hive table that Iceberg cannot register, read once to count them and once to write them.

One append fills the table. It says how many rows were counted before, and the server refuses it if others were written;
it names a batch, so that the rows cannot come twice. Where a key has to occur once, that is so in the written files
before they are committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructField, StructType

from firn.protocol.leases import Lease, Outcome, Result
from firn.protocol.names import quote_name
from firn.protocol.tasks.convert import Column, ConvertTask, Layout, Reader
from firn.protocol.tasks.sync import HiveColumn
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
from optimizer.hive_rows import check_zone, spark_type
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.jobs.merge import sign_properties
from optimizer.json_rows import parse_lines
from optimizer.parquet_rows import read_parquet
from optimizer.read_checks import JobReads
from optimizer.serde_rows import LAZY, NUMBER, Directory, SerdeRows
from optimizer.uncommitted_files import stage_rows

_ROWS, _NO_KEY = "_firn_rows", "_firn_no_key"
_SHOWN_KEYS = 5
_LINE = Column(name="_firn_line", type="string")
_WHOLE_LINE = {"field.delim": "\x01", "serialization.last.column.takes.rest": "true"}


def run(work: JobRun) -> Result:
    """Count, then write and commit."""
    task = ConvertTask.model_validate(work.lease.task)
    source = _Source(work, task)
    work.keeper.stage("counting the Hive table's rows")
    rows = source.count()
    work.keeper.say(f"{rows} rows of {task.source} in {len(task.units)} directories are read and written anew")
    work.keeper.check()
    if task.primary_key:
        work.keeper.stage("counting keys")
        check_keys(source.rows(), task)
        work.keeper.check()
    work.keeper.stage("writing them into the new table")
    marks = {
        "firn.writer-id": task.writer,
        "firn.batch-id": task.batch,
        "firn.job-id": work.lease.job_id,
        "firn.reason": f"a rewrite of the Hive table {task.source}",
        "firn.converted-from": task.source,
        "firn.rows-read": str(rows),
    }
    write = _append_checked if task.primary_key and task.unique else _append
    work.commit(lambda: write(work, task, source.rows(), marks))
    return Result(outcome=Outcome.COMMITTED, result={"rows": rows, "directories": len(task.units)})


def _append(work: JobRun, task: ConvertTask, rows: DataFrame, marks: Mapping[str, str]) -> None:
    sign_properties(rows.writeTo(work.session.name(task.parts)), marks).append()


def _append_checked(work: JobRun, task: ConvertTask, rows: DataFrame, marks: Mapping[str, str]) -> None:
    """Keys are counted again, in the files: another pass has counted them, and Hive's side may have written since."""
    with stage_rows(work.session, task.parts) as staged:
        staged.write(rows)
        try:
            work.keeper.stage("counting keys of what was written")
            check_keys(staged.read(), task)
            work.keeper.stage("committing")
        except BaseException:
            staged.discard()
            raise
        staged.append(marks)


def check_keys(rows: DataFrame, task: ConvertTask) -> None:
    """Refused where a row has no key, or, if they are to be unique, where a key occurs more than once."""
    names = [quote_name(name) for name in task.primary_key]
    no_key = reduce(or_, [F.col(name).isNull() for name in names])
    keys = rows.groupBy(*names).agg(F.count(F.lit(1)).alias(_ROWS)).withColumn(_NO_KEY, no_key)
    repeats = (F.col(_ROWS) > 1) & ~F.col(_NO_KEY)
    counted = keys.agg(
        F.sum(F.when(F.col(_NO_KEY), F.col(_ROWS))), F.count_if(repeats), F.sum(F.when(repeats, F.col(_ROWS) - 1))
    )
    [(without, repeated, surplus)] = counted.collect()
    shown = ", ".join(task.primary_key)
    if without:
        raise Refused(
            f"{without} rows of {task.source} have no value in the primary key ({shown}). Give them one in Hive and "
            "convert again, or drop the empty table and choose another key"
        )
    if not repeated or not task.unique:
        return
    some = keys.where(repeats).orderBy(F.desc(_ROWS), *names).limit(_SHOWN_KEYS)
    sample = some.select(*[F.col(name).cast("string") for name in names], _ROWS).collect()
    examples = ", ".join(f"{' '.join(map(str, key))} ({count} rows)" for *key, count in sample)
    more = " …" if repeated > len(sample) else ""
    raise Refused(
        f"{repeated} keys ({shown}) of {task.source} occur more than once, {surplus} duplicate rows: "
        f"{examples}{more}. Make them one row each in Hive and convert again; or convert with --no-unique, and say "
        f"then which row stays: firn table resolve-keys {'.'.join(task.parts[:-1])} --keep-highest COLUMN"
    )


class _Source:
    """The Hive table's rows, in the columns and types of the table that they fill."""

    def __init__(self, work: JobRun, task: ConvertTask) -> None:
        self._session, self._task = work.session, task
        directories = [Directory(at, unit.location, task.layouts[unit.layout]) for at, unit in enumerate(task.units)]
        self._by_reader = {
            reader: [directory for directory in directories if directory.layout.reader is reader] for reader in Reader
        }

    def count(self) -> int:
        """Rows, none of whose columns is looked into."""
        return self._read_by_serde(()).count() + self._read_parquet(()).count() + self._read_by_line(()).count()

    def rows(self) -> DataFrame:
        """All rows, as the new table has them."""
        columns = self._task.columns
        check_zone(
            self._session, [HiveColumn(hive=column.name, type=column.type, name=column.name) for column in columns]
        )
        read = self._read_by_serde(columns)
        if self._by_reader[Reader.PARQUET]:
            read = read.unionByName(self._read_parquet(columns))
        if self._by_reader[Reader.JSON]:
            fields = [StructField(column.name, spark_type(column.type)) for column in columns]
            read = read.unionByName(parse_lines(self._read_by_line([_LINE]), _LINE.name, NUMBER, fields))
        joined = read.join(F.broadcast(self._values()), NUMBER, "left") if self._task.partition_columns else read
        return joined.select(*self._columns(joined.columns))

    def _read_by_serde(self, columns: Sequence[Column]) -> DataFrame:
        task = self._task
        reader = SerdeRows(self._session, task.table, task.parameters, task.header_lines)
        return reader.read(self._by_reader[Reader.SERDE], columns)

    def _read_parquet(self, columns: Sequence[Column]) -> DataFrame:
        return read_parquet(self._session, self._by_reader[Reader.PARQUET], columns)

    def _read_by_line(self, columns: Sequence[Column]) -> DataFrame:
        """A row with one column for each line."""
        lines = [replace(directory, layout=_lines_of(directory.layout)) for directory in self._by_reader[Reader.JSON]]
        reader = SerdeRows(self._session, _lines_of(self._task.table), {}, self._task.header_lines)
        return reader.read(lines, columns)

    def _columns(self, names: Sequence[str]) -> list[SparkColumn]:
        table: StructType = self._session.spark.table(self._session.name(self._task.parts)).schema
        return [
            (F.col(quote_name(field.name)) if field.name in names else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in table.fields
        ]

    def _values(self) -> DataFrame:
        """The partition columns of each directory, as text."""
        names = [quote_name(partition_column.name) for partition_column in self._task.partition_columns]
        rows = [(at, *unit.values) for at, unit in enumerate(self._task.units)]
        schema = ", ".join([f"{NUMBER} int", *(f"{name} string" for name in names)])
        return create_local_frame(self._session.spark, rows, schema)


def _lines_of(layout: Layout) -> Layout:
    """The same files, as a table with one column."""
    return layout.model_copy(update={"serde": LAZY, "parameters": _WHOLE_LINE, "columns": [_LINE]})


def reads(lease: Lease) -> JobReads:
    """The directories of the Hive table."""
    return JobReads(directories=[unit.location for unit in ConvertTask.model_validate(lease.task).units])


JOB = OptimizerJob(run, reads)
