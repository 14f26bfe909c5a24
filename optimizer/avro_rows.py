"""Rows of Avro files. Spark brings no reader for them, so Python reads them: slower, and a file at a time in memory.

Columns are found by name, letter by letter as Hive does it, and columns that a file lacks are null.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

ROWS_PER_BATCH = 5_000
Convert = Callable[[Any], Any]


def read_avro(spark: SparkSession, locations: list[str], schema: StructType, path: str, position: str) -> DataFrame:
    """The files' rows in these columns, each with its file's `path`, as Spark names it, and its `position` in there."""
    # A batch of whole files would take too much memory.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    files = spark.read.format("binaryFile").option("__globPaths__", "false").load(locations)
    full_schema = StructType([*schema.fields, StructField(path, StringType()), StructField(position, LongType())])
    arrow, convert = to_arrow_schema(full_schema), converter(schema)

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield from _batches(name, content.as_buffer())

    def _batches(name: str, content: pa.Buffer) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        for at, row in enumerate(fastavro.reader(io.BytesIO(content))):
            rows.append(convert(row) | {path: name, position: at})
            if len(rows) == ROWS_PER_BATCH:
                yield pa.RecordBatch.from_pylist(rows, schema=arrow)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    return files.select(F.col("_metadata.file_path"), "content").mapInArrow(decoded, full_schema)


def converter(kind: DataType) -> Convert:
    """Make the function that converts a value of a file to this type."""
    match kind:
        case StructType():
            parts = [(field.name, field.name.lower(), converter(field.dataType)) for field in kind.fields]

            def struct(value: Any) -> Any:
                if value is None:
                    return None
                return {name: convert(value.get(name, value.get(lower))) for name, lower, convert in parts}

            return struct
        case ArrayType():
            element = converter(kind.elementType)
            return lambda value: None if value is None else [element(item) for item in value]
        case MapType():
            of_value = converter(kind.valueType)
            return lambda value: None if value is None else [(key, of_value(item)) for key, item in value.items()]
        case _:
            return lambda value: value
