"""What a Hive user does: databases, tables and data through Spark and the metastore; nothing here knows of Firn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from demo.dataset import load

DATABASE = "nyc"
FLIGHTS = f"spark_catalog.{DATABASE}.flights"
_TYPES = {pa.string(): "STRING", pa.int32(): "INT", pa.float64(): "DOUBLE", pa.timestamp("us", tz="UTC"): "TIMESTAMP"}


def is_loaded(spark: SparkSession, table: str) -> bool:
    """Whether an earlier run has loaded it.  Its rows come last, so a table without any is one that was cut off."""
    full = f"spark_catalog.{DATABASE}.{table}"
    return spark.catalog.tableExists(full) and not spark.table(full).isEmpty()


def load_table(spark: SparkSession, table: str, *, partitioned_by: tuple[str, ...] = ()) -> int:
    """Load one of the data set's tables as a Parquet table of Hive's; how many rows it has."""
    rows = load(table)
    full = f"spark_catalog.{DATABASE}.{table}"
    own = [field for field in rows.schema if field.name not in partitioned_by]
    by = [field for field in rows.schema if field.name in partitioned_by]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS spark_catalog.{DATABASE}")
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


def fingerprint(directory: Path) -> Fingerprint:
    """Size, time of modification and SHA-256 of every file below the directory."""
    files = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            stat = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[str(path.relative_to(directory))] = (stat.st_size, stat.st_mtime_ns, digest)
    return Fingerprint(files)
