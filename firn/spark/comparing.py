"""Values of any type as Spark can compare them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType


def make_comparable(value: Column, kind: DataType) -> Column:
    """A value as Spark can compare it; it compares no maps."""
    return F.to_json(F.struct(value)) if _has(kind, (MapType,)) else value


def is_kept_by_grouping(kind: DataType) -> bool:
    """Whether rows grouped by such a value have it as it was. Of -0.0, Spark's groups keep 0.0; maps make none."""
    return not _has(kind, (MapType, FloatType, DoubleType))


def _has(kind: DataType, parts: tuple[type[DataType], ...]) -> bool:
    if isinstance(kind, StructType):
        return any(_has(field.dataType, parts) for field in kind.fields)
    return isinstance(kind, parts) or (isinstance(kind, ArrayType) and _has(kind.elementType, parts))
