"""Convert: all rows of a Hive table that Iceberg cannot register, read once to count them and once to write them.

One append fills the table. It says how many rows were counted before, and the server refuses it if others were written;
it names a batch, so that the rows cannot come twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructField, StructType

from firn.names import quoted
from optimizer.convert_task import Column, ConvertTask, Layout
from optimizer.hive_rows import check_zone, spark_type
from optimizer.jobs.merge import signed
from optimizer.json_rows import parse_lines
from optimizer.serde_rows import LAZY, NUMBER, Directory, SerdeRows
from optimizer.sync_task import HiveColumn
from optimizer.wire import Outcome, Result
from optimizer.work import Work

_LINE = Column(name="_firn_line", type="string")
_WHOLE_LINE = {"field.delim": "\x01", "serialization.last.column.takes.rest": "true"}


def run(work: Work) -> Result:
    """Count, then write and commit."""
    task = ConvertTask.model_validate(work.lease.task)
    source = _Source(work, task)
    work.hold.stage("counting the Hive table's rows")
    rows = source.count()
    work.hold.say(f"{rows} rows of {task.source} in {len(task.units)} directories are read and written anew")
    work.hold.check()
    work.hold.stage("writing them into the new table")
    marks = {
        "firn.writer-id": task.writer,
        "firn.batch-id": task.batch,
        "firn.job-id": work.lease.job_id,
        "firn.reason": f"a rewrite of the Hive table {task.source}",
        "firn.converted-from": task.source,
        "firn.rows-read": str(rows),
    }
    work.commit(lambda: signed(source.rows().writeTo(work.session.name(task.parts)), marks).append())
    return Result(outcome=Outcome.COMMITTED, result={"rows": rows, "directories": len(task.units)})


class _Source:
    """The Hive table's rows, in the columns and types of the table that they fill."""

    def __init__(self, work: Work, task: ConvertTask) -> None:
        self._session, self._task = work.session, task
        every = [Directory(at, unit.location, task.layouts[unit.layout]) for at, unit in enumerate(task.units)]
        self._by_serde = [one for one in every if one.layout.reader == "serde"]
        self._by_line = [replace(one, layout=_lines_of(one.layout)) for one in every if one.layout.reader == "json"]

    def count(self) -> int:
        """Rows, none of whose columns is looked into."""
        return self._read_by_serde(()).count() + self._read_by_line(()).count()

    def rows(self) -> DataFrame:
        """All rows, as the new table has them."""
        columns = self._task.columns
        check_zone(self._session, [HiveColumn(hive=one.name, type=one.type, name=one.name) for one in columns])
        read = self._read_by_serde(columns)
        if self._by_line:
            fields = [StructField(one.name, spark_type(one.type)) for one in columns]
            read = read.unionByName(parse_lines(self._read_by_line([_LINE]), _LINE.name, NUMBER, fields))
        joined = read.join(F.broadcast(self._values()), NUMBER, "left") if self._task.partition_columns else read
        return joined.select(*self._columns(joined.columns))

    def _read_by_serde(self, columns: Sequence[Column]) -> DataFrame:
        task = self._task
        reader = SerdeRows(self._session, task.table, task.parameters, task.header_lines)
        return reader.read(self._by_serde, columns)

    def _read_by_line(self, columns: Sequence[Column]) -> DataFrame:
        """A row with one column for each line."""
        reader = SerdeRows(self._session, _lines_of(self._task.table), {}, self._task.header_lines)
        return reader.read(self._by_line, columns)

    def _columns(self, known: Sequence[str]) -> list[SparkColumn]:
        table: StructType = self._session.spark.table(self._session.name(self._task.parts)).schema
        return [
            (F.col(quoted(field.name)) if field.name in known else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in table.fields
        ]

    def _values(self) -> DataFrame:
        """The partition columns of each directory, as text."""
        names = [quoted(one.name) for one in self._task.partition_columns]
        rows = [(at, *unit.values) for at, unit in enumerate(self._task.units)]
        schema = ", ".join([f"{NUMBER} int", *(f"{name} string" for name in names)])
        return self._session.spark.createDataFrame(rows, schema)


def _lines_of(layout: Layout) -> Layout:
    """The same files, as a table with one column."""
    return layout.model_copy(update={"serde": LAZY, "parameters": _WHOLE_LINE, "columns": [_LINE]})
