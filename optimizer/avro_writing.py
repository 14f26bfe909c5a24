"""Avro files as Hive writes them: by its own serializer, which Spark carries; no metastore is asked.

Spark's command for writing files is given Hive's format without a table, so that partitions, commits and counts are as
with any other format. Hive's Avro holds less than the columns do, and its serializer says nothing of what it cuts off:
`find_lost_values` tells such values before they are taken for written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DateType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from firn.protocol.names import quote_name
from optimizer.spark import JobSession

_SERDE = "org.apache.hadoop.hive.serde2.avro.AvroSerDe"
_READS = "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat"
_WRITES = "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat"
_OPTIONS = {
    "hive.output.file.extension": ".avro",
    "avro.output.codec": "deflate",  # which every reader of Avro has
}
_FIRST_DAY = date(1582, 10, 15)
"""Hive's classes count days before it by the Julian calendar, which Iceberg's readers do not know."""
_FIRST_MICROSECOND = (_FIRST_DAY - date(1970, 1, 1)).days * 86_400_000_000
Rule = Callable[[Column], Column]


@dataclass(frozen=True)
class AvroColumn:
    """A column as Hive's serializer writes it: `kind` may have bounded strings, which Spark's columns have not."""

    name: str
    kind: DataType

    @staticmethod
    def of(name: str, kind: DataType) -> AvroColumn:
        """A column of a type of Hive's; Avro has no small integers."""
        return AvroColumn(name, _stored(kind))


def write_avro(
    session: JobSession, rows: DataFrame, columns: Sequence[AvroColumn], partitioned_by: Sequence[str], location: str
) -> None:
    """Write these rows, whose last columns are those that they are partitioned by, as Spark does with other formats."""
    jvm = session.jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    sink = jvm.org.apache.hadoop.hive.ql.plan.FileSinkDesc(path, _described(session, columns), True)
    form = jvm.org.apache.spark.sql.hive.execution.HiveFileFormat(sink)
    typed = [F.col(quote_name(column.name)).cast(_unbounded(column.kind)).alias(column.name) for column in columns]
    frame = rows.select(*typed, *[quote_name(name) for name in partitioned_by])
    plan = frame._jdf.queryExecution().analyzed()
    nothing = jvm.scala.Option.empty()
    command = jvm.org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand(
        path,
        _map(session, {}),
        False,
        plan.output().takeRight(len(partitioned_by)),
        nothing,
        form,
        _map(session, _OPTIONS),
        plan,
        jvm.org.apache.spark.sql.SaveMode.Append,
        nothing,
        nothing,
        _sequence(session, frame.columns),
    )
    jvm.org.apache.spark.sql.classic.Dataset.ofRows(session.java, command)


def find_lost_values(columns: Sequence[AvroColumn]) -> Iterator[tuple[AvroColumn, str, Column]]:
    """Yield columns with values that Hive's Avro cannot hold: the column, the values in words, and a test of a row."""
    for column in columns:
        limits = list(_limits(column.kind))
        if limits:
            words = " or ".join(dict.fromkeys(words for words, _ in limits))
            is_lost = reduce(or_, (rule(F.col(quote_name(column.name))) for _, rule in limits))
            yield column, words, F.coalesce(is_lost, F.lit(False))


def _limits(kind: DataType) -> Iterator[tuple[str, Rule]]:
    """Yield the tests for values of this type that Hive loses; a test is false or null for other values."""
    match kind:
        case TimestampType():
            yield "finer than a millisecond", lambda value: F.unix_micros(value) % 1000 != 0
            yield f"before {_FIRST_DAY}", lambda value: F.unix_micros(value) < F.lit(_FIRST_MICROSECOND)
        case DateType():
            yield f"before {_FIRST_DAY}", lambda value: value < F.lit(_FIRST_DAY)
        case CharType() | VarcharType() | StringType():
            yield from _text_limits(kind)
        case StructType():
            for field in kind.fields:
                yield from ((words, _of_field(rule, field.name)) for words, rule in _limits(field.dataType))
        case ArrayType():
            yield from ((words, _of_any(rule)) for words, rule in _limits(kind.elementType))
        case MapType():
            yield from ((words, _of_parts(rule, F.map_keys)) for words, rule in _limits(kind.keyType))
            yield from ((words, _of_parts(rule, F.map_values)) for words, rule in _limits(kind.valueType))


def _text_limits(kind: DataType) -> Iterator[tuple[str, Rule]]:
    yield "not valid UTF-8", lambda value: ~F.is_valid_utf8(value)
    if isinstance(kind, CharType | VarcharType):
        length = kind.length
        yield "longer than its type", lambda value: F.char_length(value) > length
    if isinstance(kind, CharType):
        yield "with spaces at its end", lambda value: value.endswith(" ")


def _of_field(rule: Rule, name: str) -> Rule:
    return lambda value: rule(value.getField(name))


def _of_any(rule: Rule) -> Rule:
    # A null element must not make the whole test null, because another element may be beyond the limit.
    return lambda values: F.exists(values, lambda element: F.coalesce(rule(element), F.lit(False)))


def _of_parts(rule: Rule, parts: Rule) -> Rule:
    return lambda value: _of_any(rule)(parts(value))


def _stored(kind: DataType) -> DataType:
    match kind:
        case ByteType() | ShortType():
            return IntegerType()
        case StructType():
            return StructType([StructField(field.name, _stored(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_stored(kind.elementType))
        case MapType():
            return MapType(_stored(kind.keyType), _stored(kind.valueType))
        case _:
            return kind


def _unbounded(kind: DataType) -> DataType:
    match kind:
        case CharType() | VarcharType():
            return StringType()
        case StructType():
            return StructType([StructField(field.name, _unbounded(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_unbounded(kind.elementType))
        case MapType():
            return MapType(_unbounded(kind.keyType), _unbounded(kind.valueType))
        case _:
            return kind


def _described(session: JobSession, columns: Sequence[AvroColumn]) -> Any:
    properties = session.jvm.java.util.Properties()
    properties.setProperty("columns", ",".join(column.name for column in columns))
    properties.setProperty("columns.types", ":".join(column.kind.simpleString() for column in columns))
    properties.setProperty("serialization.lib", _SERDE)
    loader = session.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    classes = [session.jvm.java.lang.Class.forName(name, True, loader) for name in (_READS, _WRITES)]
    return session.jvm.org.apache.hadoop.hive.ql.plan.TableDesc(*classes, properties)


def _map(session: JobSession, items: Mapping[str, str]) -> Any:
    java_map = session.jvm.java.util.HashMap()
    for key, value in items.items():
        java_map.put(key, value)
    return session.jvm.PythonUtils.toScalaMap(java_map)


def _sequence(session: JobSession, items: Sequence[str]) -> Any:
    java_list = session.jvm.java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return session.jvm.scala.jdk.javaapi.CollectionConverters.asScala(java_list).toSeq()
