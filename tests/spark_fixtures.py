"""One Spark for the whole test run: starting a JVM costs more than most tests."""

from __future__ import annotations

import atexit
import warnings
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from firn.spark.jars import spark_conf

ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1500m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@cache
def shared_spark() -> SparkSession:
    """The session whose JVM all tests share; tests take a `newSession()` of it for catalogs of their own."""
    # PySpark leaves the pipe to its JVM open on purpose; Python's warnings about it are errors here.
    warnings.filterwarnings("ignore", category=ResourceWarning)
    builder = SparkSession.builder.master("local[2]").appName("firn tests")
    session = builder.config(map={**spark_conf(), **ICEBERG}).getOrCreate()
    atexit.register(session.stop)
    return session


def hadoop_catalog(name: str, warehouse: Path) -> SparkSession:
    """A session with an Iceberg catalog that needs no server: tables are directories."""
    session = shared_spark().newSession()
    session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    session.conf.set(f"spark.sql.catalog.{name}.warehouse", str(warehouse))
    return session
