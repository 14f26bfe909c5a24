"""The real server in a process of its own, and Spark sessions on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import firn
from firn.spark.jars import spark_conf
from firn.spark.sessions import catalog_conf
from optimizer.spark import SETTINGS

STOP_SECONDS = 20
MASTER = "local[2]"
_QUIET = {"FIRN_BACKGROUND__PLAN_SECONDS": "3600", "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "3600"}


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that plans and syncs nothing by itself: what is measured is asked for."""

    url: str
    pid: int
    client: firn.Client


@contextmanager
def running_server(data_dir: Path, environment: Mapping[str, str] | None = None) -> Iterator[RunningServer]:
    """A fresh server with its data in `data_dir`; RuntimeError with the end of its log when it does not start."""
    log_path = data_dir.with_suffix(".log")
    command = [sys.executable, "-m", "server", "--data-dir", str(data_dir), "--port", "0"]
    env = {**os.environ, **_QUIET, **(environment or {})}
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env) as process,
    ):
        try:
            url = _address(process, log_path)
            with firn.connect(url) as client:
                yield RunningServer(url, process.pid, client)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if address := re.search(r"http://\S+", line):
            return address.group()
    raise RuntimeError(f"the server did not start: {log.read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def running_spark(scratch: Path, *, memory: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Spark with the settings of Firn's optimizers, for both sides of a comparison."""
    warnings.filterwarnings("ignore", category=ResourceWarning)  # PySpark keeps a pipe to its JVM open
    chosen: dict[str, bool | float | int | str | None] = {
        **SETTINGS,
        **spark_conf(),
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        **(settings or {}),
    }
    spark = SparkSession.builder.master(MASTER).appName("firn bench").config(map=chosen).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def jvm_pid(spark: SparkSession) -> int:
    """The process that does Spark's work: spark-submit has become it."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def session_on(spark: SparkSession, server: RunningServer) -> SparkSession:
    """A session that knows the server's catalog `lake`."""
    session = spark.newSession()
    for key, value in catalog_conf(server.client, "lake").items():
        session.conf.set(key, value)
    return session
