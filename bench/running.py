"""The real server and a real optimizer in processes of their own, and Spark sessions on them.

Tests replace `start_server`, `start_spark` and `running_optimizer` by parts that they share.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import firn
from firn.spark.jars import spark_conf
from firn.spark.sessions import catalog_conf
from optimizer.spark import SETTINGS

STOP_SECONDS = 20
OPTIMIZER_STOP_SECONDS = 120
MASTER = "local[2]"
QUIET = {"FIRN_BACKGROUND__PLAN_SECONDS": "3600", "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "3600"}

Settings = dict[str, bool | float | int | str | None]


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that plans and syncs nothing by itself: what is measured is asked for."""

    url: str
    pid: int
    client: firn.Client


@contextmanager
def running_server(data_dir: Path, environment: Mapping[str, str] | None = None) -> Iterator[RunningServer]:
    """A fresh server with its data in `data_dir`; RuntimeError with the end of its log when it does not start."""
    with start_server(data_dir, environment or {}) as (url, pid), firn.connect(url) as client:
        yield RunningServer(url, pid, client)


@contextmanager
def start_server(data_dir: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Start a server with these variables; its address and its process."""
    log_path = data_dir.with_suffix(".log")
    command = [sys.executable, "-m", "server", "--data-dir", str(data_dir), "--port", "0"]
    env = {**os.environ, **QUIET, **environment}
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env) as process,
    ):
        try:
            yield _address(process, log_path), process.pid
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
    chosen: Settings = {
        **SETTINGS,
        **spark_conf(),
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        **(settings or {}),
    }
    with start_spark(chosen) as spark:
        yield spark


@contextmanager
def start_spark(settings: Settings) -> Iterator[SparkSession]:
    """Start a Spark of this process, and stop it in the end."""
    spark = SparkSession.builder.master(MASTER).appName("firn bench").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def running_optimizer(
    server: RunningServer, scratch: Path, *, memory: str, slots: int = 1, streams: int = 0, engine: str = "auto"
) -> Iterator[Callable[[], list[int]]]:
    """An optimizer as it is started on any machine; gives a function for the ids of its processes, its own first."""
    command = [sys.executable, "-m", "optimizer", "--server", server.url, "--slots", str(slots)]
    command += ["--streams", str(streams), "--drain-engine", engine]
    with (
        (scratch / "optimizer.log").open("wb") as log,
        subprocess.Popen(
            [*command, "--driver-memory", memory], stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield lambda: sorted(_list_session(process.pid), key=lambda pid: pid != process.pid)
        finally:
            process.terminate()
            process.wait(OPTIMIZER_STOP_SECONDS)


def _list_session(leader: int) -> list[int]:
    """The processes of a session."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == leader:
                pids.append(int(entry.name))
        except ProcessLookupError:
            continue
    return pids


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
