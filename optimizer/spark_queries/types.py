"""Names of Spark's types in the words of DuckDB, which results of both engines use."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_NAMES: dict[type[DataType], str] = {
    BinaryType: "BLOB",
    BooleanType: "BOOLEAN",
    ByteType: "TINYINT",
    DateType: "DATE",
    DayTimeIntervalType: "INTERVAL",
    DoubleType: "DOUBLE",
    FloatType: "FLOAT",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    NullType: "NULL",
    ShortType: "SMALLINT",
    TimestampNTZType: "TIMESTAMP",
    TimestampType: "TIMESTAMP WITH TIME ZONE",
}


def name_type(kind: DataType) -> str:
    """The name of a type."""
    if isinstance(kind, ArrayType):
        return f"{name_type(kind.elementType)}[]"
    if isinstance(kind, MapType):
        return f"MAP({name_type(kind.keyType)}, {name_type(kind.valueType)})"
    if isinstance(kind, StructType):
        fields = (f"{_quote(field.name)} {name_type(field.dataType)}" for field in kind.fields)
        return f"STRUCT({', '.join(fields)})"
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _NAMES.get(type(kind), "VARCHAR")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def to_arrow_columns(frame: DataFrame, names: list[str]) -> DataFrame:
    """The frame with these names of columns. Columns of types that Arrow does not have become text."""
    renamed = frame.toDF(*names)
    columns: list[Column] = []
    for field in renamed.schema.fields:
        column = renamed[_escape(field.name)]
        columns.append(column if _has_arrow_type(field.dataType) else column.cast("string").alias(field.name))
    return renamed.select(*columns)


def _escape(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _has_arrow_type(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_arrow_type(kind.elementType)
    if isinstance(kind, MapType):
        return _has_arrow_type(kind.keyType) and _has_arrow_type(kind.valueType)
    if isinstance(kind, StructType):
        return all(_has_arrow_type(field.dataType) for field in kind.fields)
    return type(kind) in _NAMES or isinstance(kind, DecimalType | StringType)
