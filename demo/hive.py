"""What a Hive user does: databases, tables and data through Spark and the metastore; nothing here knows of Firn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from demo.dataset import load
from firn.hdfs.files import HdfsReader, is_on_hdfs, list_directory

DATABASE = "nyc"
FLIGHTS = f"spark_catalog.{DATABASE}.flights"
_TYPES = {pa.string(): "STRING", pa.int32(): "INT", pa.float64(): "DOUBLE", pa.timestamp("us", tz="UTC"): "TIMESTAMP"}


def is_loaded(spark: SparkSession, table: str) -> bool:
    """Whether an earlier run has loaded it.  Its rows come last, so a table without any is one that was cut off."""
    full = f"spark_catalog.{DATABASE}.{table}"
    return spark.catalog.tableExists(full) and not spark.table(full).isEmpty()


def create_database(spark: SparkSession, location: str) -> None:
    """Create the database of the tables. On this machine it lies where the metastore puts it."""
    at = f"LOCATION '{location}'" if is_on_hdfs(location) else ""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS spark_catalog.{DATABASE} {at}")


def load_table(spark: SparkSession, table: str, *, partitioned_by: tuple[str, ...] = ()) -> int:
    """Load one of the data set's tables as a Parquet table of Hive's; how many rows it has."""
    rows = load(table)
    full = f"spark_catalog.{DATABASE}.{table}"
    own = [field for field in rows.schema if field.name not in partitioned_by]
    by = [field for field in rows.schema if field.name in partitioned_by]
    clause = f"PARTITIONED BY ({_columns(by)})" if by else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {full} ({_columns(own)}) {clause} STORED AS PARQUET")
    names = ", ".join(f"`{field.name}`" for field in [*own, *by])
    spark.createDataFrame(rows).createOrReplaceTempView("loaded")
    into = f"PARTITION ({', '.join(partitioned_by)})" if by else ""
    spread = f"DISTRIBUTE BY {', '.join(partitioned_by)}" if by else ""
    spark.sql(f"INSERT OVERWRITE TABLE {full} {into} SELECT {names} FROM loaded {spread}")  # noqa: S608 -- own names
    return int(rows.num_rows)


def _columns(fields: list[pa.Field]) -> str:
    return ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in fields)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Every file below a directory, by what could change of it."""

    files: dict[str, tuple[int, int, str]]

    @property
    def bytes(self) -> int:
        """All sizes together."""
        return sum(size for size, _, _ in self.files.values())

    def differences(self, later: Fingerprint) -> list[str]:
        """Files that came, went or changed."""
        both = self.files.keys() | later.files.keys()
        return sorted(path for path in both if self.files.get(path) != later.files.get(path))


def fingerprint(directory: str) -> Fingerprint:
    """Size, time of modification and SHA-256 of every file below the directory, on this machine or on HDFS."""
    return Fingerprint(dict((_look_on_hdfs if is_on_hdfs(directory) else _look)(directory)))


def _look(directory: str) -> Iterator[tuple[str, tuple[int, int, str]]]:
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file():
            stat = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield str(path.relative_to(directory)), (stat.st_size, stat.st_mtime_ns, digest)


def _look_on_hdfs(directory: str) -> Iterator[tuple[str, tuple[int, int, str]]]:
    for status in list_directory(directory, recursive=True):
        if not status.is_directory:
            with HdfsReader(f"{directory}/{status.path}") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            yield status.path, (status.size, status.mtime_ns, digest)
