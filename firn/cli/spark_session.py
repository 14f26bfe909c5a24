"""Spark sessions of the command line, on the server's catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import firn.spark
from firn.auto_sync import AutoSync
from firn.cli.context import CliContext
from firn.cli.show import Show
from firn.embedded.jars import cache_dir
from firn.embedded.process import require_java
from firn.embedded.quiet import redirect_stderr
from firn.errors import FirnError, Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def open_session(ctx: CliContext, *, master: str, memory: str, kafka: bool = False) -> Iterator[SparkSession]:
    """Start a Spark session on the server's catalogs, with `kafka` also on topics, and stop it at the end."""
    require_java()
    names = [catalog.name for catalog in ctx.client.catalogs.list()]
    if ctx.catalog not in names:
        raise Invalid(f"the server has no catalog {ctx.catalog!r}", hint=f"it has {', '.join(names)}")
    try:
        # PySpark is an extra, and its import is slow.
        from py4j.protocol import Py4JError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise FirnError("PySpark is not installed", hint="pip install 'firn[spark]'") from error
    quiet: dict[str, bool | float | int | str | None] = {
        "spark.sql.defaultCatalog": ctx.catalog,
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("firn sql").master(master)
    builder = firn.spark.configure(builder, ctx.client, catalogs=names, kafka=kafka)
    ctx.show.note("starting Spark …")
    log = cache_dir() / "sql.log"
    try:
        with redirect_stderr(log):
            spark = builder.config(map=quiet).getOrCreate()
    except (PySparkException, Py4JError) as error:  # such as too little memory, or no connection to Maven Central
        raise FirnError(f"Spark does not start: {error}", hint=f"read the end of {log}") from error
    try:
        yield spark
    finally:
        spark.stop()


def run_in_spark(ctx: CliContext, spark: SparkSession, statement: str, limit: int, auto_sync: AutoSync) -> None:
    """Run one statement, and print its rows."""
    show = ctx.show
    statement = statement.rstrip().rstrip(";")
    with show.progress("syncing changes from Hive" if auto_sync is not AutoSync.NONE else "running"):
        firn.spark.sync_before_statement(spark, statement, auto_sync)
    try:
        with show.progress("running"):
            frame = spark.sql(statement)
            rows = frame.limit(limit + 1).collect() if frame.columns else []
    except Exception as error:  # Java throws many types of errors; the user gets one line of them
        raise FirnError(
            firn.spark.reason(error), hint="correct the statement; `firn sql` without a statement opens a prompt"
        ) from error
    _print(show, frame, [tuple(row) for row in rows], limit)


def _print(show: Show, frame: DataFrame, rows: list[tuple[object, ...]], limit: int) -> None:
    kept = rows[:limit]
    show.emit(
        [dict(zip(frame.columns, row, strict=True)) for row in kept],
        lambda: show.table(frame.columns, kept, none="done" if not frame.columns else "no rows"),
    )
    if len(rows) > limit:
        show.note(f"only the first {limit:,} rows; --limit shows more")
