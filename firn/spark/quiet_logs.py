"""Log silencing for writes: the write raises its failure as one exception, so Spark need not print it as well.

A refused row fails a task, and Spark logs the stack trace of that task five times before the exception arrives in
Python. PySpark itself logs each analysis error as a line of JSON.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

_V2 = "org.apache.spark.sql.execution.datasources.v2"
JAVA_LOGGERS = (
    "org.apache.spark.util.Utils",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.storage.DiskBlockObjectWriter",
    f"{_V2}.DataWritingSparkTask",
    f"{_V2}.AppendDataExec",
    "org.apache.iceberg.spark.source.SparkWrite",
    "org.apache.iceberg.util.Tasks",
)
"""Everything that Spark and Iceberg log about a task or commit that fails; all of it is also in the exception."""
PYSPARK_LOGGER = "SQLQueryContextLogger"

_lock = threading.Lock()
_levels: dict[str, Any] = {}
"""The own level of each silenced logger; None for a logger without one."""
_depth = 0


@contextmanager
def silence_failure_logs(spark: SparkSession) -> Iterator[None]:
    """Silence the loggers above until the block ends. Blocks may overlap in several threads."""
    _enter(spark)
    try:
        yield
    finally:
        _leave(spark)


def _enter(spark: SparkSession) -> None:
    global _depth  # noqa: PLW0603 -- the loggers are the process's, so their state is as well
    with _lock:
        if not _depth:
            _silence(spark)
        _depth += 1


def _leave(spark: SparkSession) -> None:
    global _depth  # noqa: PLW0603 -- see _enter
    with _lock:
        _depth -= 1
        if not _depth:
            _restore(spark)


def _silence(spark: SparkSession) -> None:
    core = spark._jvm.org.apache.logging.log4j.core  # type: ignore[union-attr]  # a classic session has a JVM
    off = spark._jvm.org.apache.logging.log4j.Level.OFF  # type: ignore[union-attr]
    configuration = core.LoggerContext.getContext(False).getConfiguration()
    for name in JAVA_LOGGERS:
        configured = configuration.getLoggerConfig(name)  # of the logger, or of the nearest one above it
        _levels[name] = configured.getLevel() if configured.getName() == name else None
        core.config.Configurator.setLevel(name, off)
    PySparkLogger.getLogger(PYSPARK_LOGGER).disabled = True


def _restore(spark: SparkSession) -> None:
    PySparkLogger.getLogger(PYSPARK_LOGGER).disabled = False
    levels = dict(_levels)
    _levels.clear()
    with suppress(Py4JError, ConnectionError):  # a JVM that is gone logs nothing
        context = spark._jvm.org.apache.logging.log4j.core.LoggerContext.getContext(False)  # type: ignore[union-attr]
        for name, level in levels.items():
            if level is None:
                context.getConfiguration().removeLogger(name)  # it follows the loggers above it again
            else:
                context.getConfiguration().getLoggerConfig(name).setLevel(level)
        context.updateLoggers()
