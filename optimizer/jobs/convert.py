"""Convert: all rows of a Hive table that Iceberg cannot register, read once to count them and once to write them.

One append fills the table. It says how many rows were counted before, and the server refuses it if others were written;
it names a batch, so that the rows cannot come twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructField, StructType

from firn.names import quoted
from optimizer.convert_task import Column, ConvertTask
from optimizer.hive_rows import check_zone, spark_type
from optimizer.jobs.merge import signed
from optimizer.json_rows import parse_lines
from optimizer.serde_rows import NUMBER, Directory, SerdeRows
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
        as_lines = {"serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", "parameters": _WHOLE_LINE}
        self._as_lines = [
            Directory(one.number, one.location, one.layout.model_copy(update={**as_lines, "columns": [_LINE]}))
            for one in every
            if one.layout.reader == "json"
        ]

    def count(self) -> int:
        """Rows, none of whose columns is looked into."""
        found = [
            reader.read(directories, ()).count()
            for reader, directories in ((self._reader(), self._by_serde), (self._lines(), self._as_lines))
            if directories
        ]
        return sum(found)

    def rows(self) -> DataFrame:
        """All rows, as the new table has them."""
        columns = self._task.columns
        check_zone(self._session, [HiveColumn(hive=one.name, type=one.type, name=one.name) for one in columns])
        fields = [StructField(one.name, spark_type(one.type)) for one in columns]
        found = [self._reader().read(self._by_serde, columns)] if self._by_serde or not self._as_lines else []
        if self._as_lines:
            lines = self._lines().read(self._as_lines, [_LINE])
            found.append(parse_lines(lines, _LINE.name, NUMBER, fields))
        read = found[0] if len(found) == 1 else found[0].unionByName(found[1])
        joined = read.join(F.broadcast(self._values()), NUMBER, "left") if self._task.partition_columns else read
        return joined.select(*self._columns(joined.columns))

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

    def _reader(self) -> SerdeRows:
        task = self._task
        return SerdeRows(self._session, task.table, task.parameters, task.header_lines)

    def _lines(self) -> SerdeRows:
        """The same files, a row with one column for each line."""
        task = self._task
        whole = self._as_lines[0].layout
        return SerdeRows(self._session, whole, {}, task.header_lines)
