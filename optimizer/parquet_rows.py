"""Rows of Hive tables in Parquet, by Spark's own reader: columns by name, in any case."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructType

from firn.protocol.names import quote_name
from firn.protocol.tasks.convert import Column
from firn.spark.local_frames import create_local_frame
from optimizer.hive_rows import READ_AS_WRITTEN, qualify
from optimizer.serde_rows import NUMBER, Directory, build_schema, filter_existing
from optimizer.spark import JobSession

_DIRECTORY = "_firn_directory"
_FILE_NAME = "/[^/]*$"


def read_parquet(session: JobSession, directories: Sequence[Directory], columns: Sequence[Column]) -> DataFrame:
    """These columns and each row's `NUMBER`; without columns the rows alone, to be counted."""
    spark, schema = session.spark, build_schema(columns)
    there = filter_existing(session, directories)
    if not there:
        return spark.createDataFrame([], schema)
    in_files = StructType(schema.fields[:-1])
    locations = [directory.location for directory in there]
    rows = spark.read.options(**READ_AS_WRITTEN).schema(in_files).parquet(*locations)
    path = F.col("_metadata.file_path")
    located = rows.select("*", F.regexp_replace(path, _FILE_NAME, "").alias(_DIRECTORY))
    paths = [(qualify(session, directory.location), directory.number) for directory in there]
    numbers = create_local_frame(spark, paths, f"{_DIRECTORY} string, {NUMBER} int")
    # A path in an unexpected spelling must fail, or its rows would be of no partition.
    unknown = F.raise_error(F.concat(F.lit("a file in an unknown directory: "), F.col(_DIRECTORY))).cast("int")
    names = [quote_name(name) for name in in_files.fieldNames()]
    return located.join(F.broadcast(numbers), _DIRECTORY, "left").select(
        *names, F.coalesce(NUMBER, unknown).alias(NUMBER)
    )
