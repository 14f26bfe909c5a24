"""Values of any type as Spark can compare them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def make_comparable(value: Column, kind: DataType) -> Column:
    """A value as Spark can compare it; it compares no maps."""
    return F.to_json(F.struct(value)) if _has_map(kind) else value


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))
