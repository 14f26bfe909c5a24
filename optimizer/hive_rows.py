"""Rows of Hive files as rows of the table that the Hive table has become.

Files are read by Hive's types and by name, whatever the case of the names in them; partition columns are not in them.
Of rows with one key the last one counts: by the sequence field where the table has one, then files that are new before
those that are not, then by modification time, location and position in the file. So one listing gives one result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from firn.protocol.names import quote_name
from firn.protocol.tasks.sync import HiveColumn, HiveFile, HiveUnit, SyncTask
from firn.spark.local_frames import create_local_frame
from optimizer.avro_rows import read_avro
from optimizer.errors import Refused
from optimizer.spark import JobSession

SOURCE = "_source"
ADDED = "_firn_added"
KNEW = "_firn_knew"
_PATH = "_firn_path"
_ORDER = "_firn_order"
_POSITION = "_firn_position"
_RANK = "_firn_rank"
_ROW = "_firn_row"
_PIECE = "_firn_piece"
# Spark has no columns of bounded strings in files; their values were cut or padded when they were written.
_BOUNDED = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)
# Spark reads and writes ORC's wall-clock times as instants of Java's zone, which is the session's (`check_zone`).
_WALL_CLOCK = re.compile(r"\btimestamp_ntz\b(?!`|\s*:)", re.IGNORECASE)
READ_AS_WRITTEN = {
    # A name of a file is no pattern, whatever characters it holds. Iceberg's readers move no date or time either.
    "__globPaths__": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


@dataclass(frozen=True)
class HiveRows:
    """The rows of a sync's files, in the table's columns and types."""

    session: JobSession
    task: SyncTask
    table: StructType

    def newest(self) -> DataFrame:
        """One row per key: the table's columns, `_source`, whether the row's file is new, and what its writer knew.

        A row without a key, or without a sequence value, fails whatever reads this, in words that name its file.
        """
        rows = self._add_key_checks(self._rows())
        keys = [F.col(quote_name(key)) for key in self.task.merge.primary_key]
        sequence = self.task.merge.sequence_field
        order = [F.col(quote_name(sequence)).desc()] if sequence else []
        order += [F.col(ADDED).desc(), F.col(_ORDER).desc(), F.col(_POSITION).desc()]
        ranked = rows.withColumn(_RANK, F.row_number().over(Window.partitionBy(*keys).orderBy(*order)))
        return ranked.where(F.col(_RANK) == 1).select(*self._names(), SOURCE, ADDED, KNEW)

    def every(self) -> DataFrame:
        """The rows of all files, in the table's columns."""
        return self._rows().select(*self._names())

    def _rows(self) -> DataFrame:
        files = list(self._ordered())
        if not files:
            return self._build_empty_frame()
        known = self._build_file_frame(files)
        formats = {file.location: unit.format for unit in self.task.units for file in unit.files}
        by_format = {
            form: [location for location, of in formats.items() if of == form] for form in set(formats.values())
        }
        rows = reduce(DataFrame.unionByName, [self._read(form, by_format[form]) for form in sorted(by_format)])
        joined = rows.join(F.broadcast(known), _PATH, "left")
        # A path in an unexpected spelling must fail, or its rows would seem to have no source.
        source = F.coalesce(SOURCE, F.raise_error(F.concat(F.lit("unknown file "), F.col(_PATH))).cast("string"))
        columns = [self._column(field) for field in self.table.fields]
        return joined.select(*columns, source.alias(SOURCE), ADDED, KNEW, _ORDER, _POSITION)

    def _read(self, form: str, locations: list[str]) -> DataFrame:
        """The rows of files of one format, each with its file and where it stands in it."""
        schema, spark = self._file_schema(), self.session.spark
        if form == "AVRO":
            return read_avro(spark, locations, schema, _PATH, _ROW).withColumn(_POSITION, _position(F.lit(0), _ROW))
        if form == "ORC":
            check_zone(self.session, self.task.columns)
        rows = spark.read.options(**READ_AS_WRITTEN).schema(schema).format(form.lower()).load(locations)
        # Of ORC files Spark tells the piece that it reads, and reads a piece from its beginning to its end.
        row = F.col("_metadata.row_index") if form == "PARQUET" else F.monotonically_increasing_id()
        begin = F.lit(0) if form == "PARQUET" else F.col("_metadata.file_block_start")
        named = rows.select("*", F.col("_metadata.file_path").alias(_PATH), row.alias(_ROW), begin.alias(_PIECE))
        return named.withColumn(_POSITION, _position(F.col(_PIECE), _ROW)).drop(_PIECE)

    def _ordered(self) -> Iterator[tuple[HiveFile, HiveUnit]]:
        files = [(file, unit) for unit in self.task.units for file in unit.files]
        return iter(sorted(files, key=lambda pair: (pair[0].mtime_ns, pair[0].location)))

    def _build_file_frame(self, files: Sequence[tuple[HiveFile, HiveUnit]]) -> DataFrame:
        """The facts of each file, by the path that Spark uses for it."""
        rows = [
            (qualify(self.session, file.location), file.source, file.added, unit.knew, order, *unit.values)
            for order, (file, unit) in enumerate(files)
        ]
        parts = ", ".join(f"{_value(at)} string" for at in range(len(self.task.partition_columns)))
        schema = f"{_PATH} string, {SOURCE} string, {ADDED} boolean, {KNEW} bigint, {_ORDER} int" + (
            f", {parts}" if parts else ""
        )
        return create_local_frame(self.session.spark, rows, schema)

    def _file_schema(self) -> StructType:
        columns = [column for column in self.task.columns if column.name is not None]
        return StructType([StructField(column.hive, spark_type(column.type)) for column in columns])

    def _column(self, field: StructField) -> Column:
        hive = {column.name: quote_name(column.hive) for column in self.task.columns}
        parts = {column.name: quote_name(_value(at)) for at, column in enumerate(self.task.partition_columns)}
        name = hive.get(field.name) or parts.get(field.name)
        value = F.lit(None) if name is None else F.col(name)
        return value.cast(field.dataType).alias(field.name)

    def _add_key_checks(self, rows: DataFrame) -> DataFrame:
        sequence = self.task.merge.sequence_field
        needed = [*self.task.merge.primary_key, *([sequence] if sequence else [])]
        for name in needed:
            words = f"a row has null in column {name}, which says which row it is or how new; it is in "
            failed = F.raise_error(F.concat(F.lit(words), F.col(SOURCE))).cast(self.table[name].dataType)
            rows = rows.withColumn(name, F.coalesce(F.col(quote_name(name)), failed))
        return rows

    def _build_empty_frame(self) -> DataFrame:
        marks = [(SOURCE, StringType()), (ADDED, spark_type("boolean")), (KNEW, LongType()), (_ORDER, IntegerType())]
        marks.append((_POSITION, spark_type("struct<piece:bigint,row:bigint>")))
        optional = [StructField(field.name, field.dataType) for field in self.table.fields]
        schema = StructType([*optional, *(StructField(name, kind) for name, kind in marks)])
        return self.session.spark.createDataFrame([], schema)

    def _names(self) -> list[str]:
        return [quote_name(field.name) for field in self.table.fields]


def qualify(session: JobSession, location: str) -> str:
    """The spelling of a path in Spark's `_metadata.file_path`."""
    make = session.jvm.org.apache.hadoop.fs.Path
    path = make(location)
    filesystem = path.getFileSystem(session.spark._jsc.hadoopConfiguration())
    # As text and back: file:/a and file:///a are one path, and Spark writes the former.
    return str(make(filesystem.makeQualified(path).toString()).toUri().toString())


def spark_type(hive_type: str) -> DataType:
    """The Spark type that reads values of this Hive type from files."""
    return DataType.fromDDL(_WALL_CLOCK.sub("timestamp", _BOUNDED.sub("string", hive_type)))


def check_zone(session: JobSession, columns: Sequence[HiveColumn]) -> None:
    """Refused unless Java's zone is UTC, as the session's is.

    Spark moves the times in ORC files by the difference, and by Hive's classes those before 1900 in Avro files.
    """
    zone = str(session.jvm.java.time.ZoneId.systemDefault().normalized().getId())
    if zone not in ("Z", "UTC") and any("timestamp" in column.type.lower() for column in columns):
        raise Refused(
            f"this optimizer's time zone is {zone}: timestamps in other files than Parquet can be read and written in "
            "UTC only; start it with -Duser.timezone=UTC in spark.driver.extraJavaOptions and "
            "spark.executor.extraJavaOptions"
        )


def _position(piece: Column, row: str) -> Column:
    return F.struct(piece.cast("bigint").alias("piece"), F.col(row).alias("row"))


def _value(at: int) -> str:
    return f"_firn_p{at}"
