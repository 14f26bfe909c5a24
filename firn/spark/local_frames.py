"""Data frames of a few rows that the driver has.

`createDataFrame` sends a list of Python rows through Python processes, which Spark starts beside its tasks: a third of
a second of CPU each time such a frame is read. Rows in Arrow become part of the query's plan instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def create_local_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """A frame of these rows; `schema` may be a list of columns as in SQL.

    Columns have flat types. Raises `pyarrow.ArrowInvalid` or `ArrowTypeError` if a value does not fit its column.
    """
    spark_schema = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    arrow_schema = to_arrow_schema(spark_schema)
    columns = zip(*rows, strict=True) if rows else ([] for _ in arrow_schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow_schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow_schema), spark_schema)
