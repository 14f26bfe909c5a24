"""Rows of Hive tables by Hive's own serializers, which Spark carries; no metastore is asked.

What Spark's Hive tables are read with is used without its catalog: tables and partitions are described by the same
Java objects, made of what the lease tells. Each directory has a number, which comes with its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import IntegerType, StructField, StructType

from firn.protocol.tasks.convert import Column, Layout
from optimizer.hive_rows import spark_type
from optimizer.spark import JobSession

NUMBER = "_firn_unit"
_ROW, _PIECE = "_firn_row", "_firn_piece"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_WRITES = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_WHOLE_FILES = "mapreduce.input.fileinputformat.split.minsize"
_AT_ONCE = 8


@dataclass(frozen=True)
class Directory:
    """A directory of files that are stored alike."""

    number: int
    location: str
    layout: Layout


@dataclass(frozen=True)
class SerdeRows:
    """The rows of some directories of a Hive table."""

    session: JobSession
    table: Layout
    parameters: Mapping[str, str]
    header_lines: int

    def read(self, directories: Sequence[Directory], columns: Sequence[Column]) -> DataFrame:
        """These columns and each row's `NUMBER`; without columns the rows alone, to be counted."""
        schema = build_schema(columns)
        there = filter_existing(self.session, directories)
        if not there:
            return self.session.spark.createDataFrame([], schema)
        jvm, java = self.session.jvm, self.session.java
        kind = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
        attributes = jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(kind)
        table = self._table()
        described = jvm.org.apache.hadoop.hive.ql.plan.TableDesc(
            table.getInputFormatClass(), table.getOutputFormatClass(), table.getMetadata()
        )
        reader = jvm.org.apache.spark.sql.hive.HadoopTableReader(
            attributes, attributes.drop(len(columns)), described, java, self._settings()
        )
        partitions = [self._partition(table, directory) for directory in there]
        partitions_ = jvm.scala.jdk.javaapi.CollectionConverters.asScala(self._list(partitions)).toSeq()
        rows = java.internalCreateDataFrame(reader.makeRDDForPartitionedTable(partitions_), kind, False)
        return self._without_headers(DataFrame(rows, self.session.spark))

    def _without_headers(self, rows: DataFrame) -> DataFrame:
        """Files are not cut where they have headers, so their first rows are the first rows of a task."""
        if not self.header_lines:
            return rows
        # The lower 33 bits count the rows of a task.
        row = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)
        numbered = rows.withColumn(_ROW, row).withColumn(_PIECE, F.expr("input_file_block_start()"))
        is_header = (F.col(_PIECE) == 0) & (F.col(_ROW) < self.header_lines)
        return numbered.where(~is_header).drop(_ROW, _PIECE)

    def _settings(self) -> Any:
        """Hadoop's settings, a copy for this reader."""
        settings = self.session.java.sessionState().newHadoopConf()
        if self.header_lines:
            settings.set(_WHOLE_FILES, str(2**62))
        return settings

    def _table(self) -> Any:
        """Rows are handed on in the form that Hive's serializer for text has, which has all types."""
        table = self._api().Table()
        table.setDbName("firn")
        table.setTableName("source")
        table.setTableType("EXTERNAL_TABLE")
        table.setParameters(self._map(self.parameters))
        table.setPartitionKeys(self._fields([Column(name=NUMBER, type="int")]))
        table.setSd(self._storage("", self.table.model_copy(update={"serde": LAZY})))
        return self.session.jvm.org.apache.hadoop.hive.ql.metadata.Table(table)

    def _partition(self, table: Any, directory: Directory) -> Any:
        partition = self._api().Partition()
        partition.setDbName("firn")
        partition.setTableName("source")
        partition.setValues(self._list([str(directory.number)]))
        partition.setParameters(self._map({}))
        partition.setSd(self._storage(directory.location, directory.layout))
        return self.session.jvm.org.apache.hadoop.hive.ql.metadata.Partition(table, partition)

    def _storage(self, location: str, layout: Layout) -> Any:
        serde = self._api().SerDeInfo()
        serde.setSerializationLib(layout.serde)
        serde.setParameters(self._map(layout.parameters))
        storage = self._api().StorageDescriptor()
        storage.setLocation(location)
        storage.setInputFormat(layout.input_format)
        storage.setOutputFormat(_WRITES)
        storage.setCols(self._fields(layout.columns))
        storage.setSerdeInfo(serde)
        storage.setBucketCols(self._list([]))
        storage.setSortCols(self._list([]))
        storage.setParameters(self._map({}))
        return storage

    def _api(self) -> Any:
        return self.session.jvm.org.apache.hadoop.hive.metastore.api

    def _fields(self, columns: Sequence[Column]) -> Any:
        return self._list([self._api().FieldSchema(column.name, column.type, None) for column in columns])

    def _list(self, items: Sequence[Any]) -> Any:
        java_list = self.session.jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def _map(self, items: Mapping[str, str]) -> Any:
        java_map = self.session.jvm.java.util.HashMap()
        for key, value in items.items():
            java_map.put(key, value)
        return java_map


def build_schema(columns: Sequence[Column]) -> StructType:
    """The columns, and the number of the directory that a row comes from."""
    return StructType([*map(_field, columns), StructField(NUMBER, IntegerType())])


def filter_existing(session: JobSession, directories: Sequence[Directory]) -> list[Directory]:
    """Those that are there: Hive reads a directory that is not there as an empty one."""
    path, settings = session.jvm.org.apache.hadoop.fs.Path, session.java.sessionState().newHadoopConf()

    def exists(directory: Directory) -> bool:
        place = path(directory.location)
        return bool(place.getFileSystem(settings).exists(place))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [
            directory
            for directory, is_there in zip(directories, pool.map(exists, directories), strict=True)
            if is_there
        ]


def _field(column: Column) -> StructField:
    return StructField(column.name, spark_type(column.type))
