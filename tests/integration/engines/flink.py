"""Flink, in a JVM of its own: a cluster on loopback, and table environments that send it their statements.

The package that it comes in has Flink's jars, but neither the scripts that start it nor the SQL gateway.  So the JVM is
started with py4j, as PySpark starts its own, and Flink's Table API does the rest.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from firn.embedded.jars import Coordinate
from firn.embedded.process import require_java
from firn.embedded.pyspark_jars import pyspark_jar
from firn.spark.jars import fetch

RUNTIME: Coordinate = ("org.apache.iceberg", "iceberg-flink-runtime-2.1", "1.11.0")
FLINK = Path(sys.prefix) / "flink"
HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
"""Iceberg's catalogs for Flink need Hadoop's classes, whatever their type; PySpark brings them."""
OPENED = (
    *("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
"""Packages of Java that Flink and its serializers look into: those that its distribution's `config.yaml` opens."""
OPTIONS = {
    "execution.target": "remote",
    "parallelism.default": "1",
    "pipeline.max-parallelism": "1",
    # A statement that fails is told at once.
    "restart-strategy.type": "none",
    "table.exec.resource.default-parallelism": "1",
    "table.local-time-zone": "UTC",
}
BATCH, STREAMING = "batch", "streaming"
Row = list[Any]


class Refused(Exception):
    """Flink did not do it; in its own words."""


@dataclass(frozen=True)
class Job:
    """A statement that is being carried out."""

    client: JavaObject

    def wait(self) -> None:
        """Until it has ended by itself; Refused when it has failed."""
        with in_its_own_words():
            self.client.getJobExecutionResult().get()

    def stop(self, savepoints: Path) -> str:
        """Have it write what it has and end; the savepoint, in Flink's usual format, that another can go on from."""
        with in_its_own_words():
            return str(self.client.stopWithSavepoint(False, str(savepoints), None).get())


@dataclass(frozen=True)
class Session:
    """A table environment."""

    environment: JavaObject

    def rows(self, statement: str) -> list[Row]:
        """The rows of a statement once its job has ended; Refused when it fails."""
        with self.reading(statement) as rows:
            return list(rows)

    def sql(self, *statements: str) -> None:
        """Run statements in their order, each until it has ended; Refused when one fails."""
        for statement in statements:
            self.rows(statement)

    def start(self, statement: str) -> Job:
        """Start a statement that writes, and come back at once."""
        with in_its_own_words():
            return Job(self.environment.executeSql(statement).getJobClient().get())

    @contextmanager
    def reading(self, statement: str) -> Iterator[Iterator[Row]]:
        """The rows of a statement as they come; its job is canceled when the block is left."""
        with in_its_own_words():
            result = self.environment.executeSql(statement).collect()
            try:
                yield _rows(result)
            finally:
                result.close()


@dataclass(frozen=True)
class Flink:
    jvm: Any
    rest_port: int

    @property
    def pid(self) -> int:
        """The process of the JVM."""
        return int(self.jvm.java.lang.ProcessHandle.current().pid())

    def session(self, mode: str = BATCH, options: Mapping[str, str] | None = None) -> Session:
        """A new table environment; it knows no catalog yet."""
        flink_options = {"rest.address": "127.0.0.1", "rest.port": str(self.rest_port), **OPTIONS, **(options or {})}
        api = self.jvm.org.apache.flink
        configuration = api.configuration.Configuration.fromMap({"execution.runtime-mode": mode, **flink_options})
        settings = api.table.api.EnvironmentSettings.newInstance().withConfiguration(configuration).build()
        return Session(api.table.api.TableEnvironment.create(settings))


@contextmanager
def in_its_own_words() -> Iterator[None]:
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise Refused(str(_as_it_came(error))) from error


def _as_it_came(error: BaseException) -> BaseException:
    """PySpark, where it runs in this process, takes every error for one of Spark, and asks Spark's JVM about it."""
    while not isinstance(error, Py4JJavaError) and error.__context__ is not None:
        error = error.__context__
    return error


def _rows(iterator: JavaObject) -> Iterator[Row]:
    while iterator.hasNext():
        row = iterator.next()
        yield [_value(row.getField(position)) for position in range(row.getArity())]


def _value(value: Any) -> Any:
    """Dates, times, arrays and the like as Java writes them."""
    return str(value.toString()) if isinstance(value, JavaObject) else value


@contextmanager
def flink_beside(scratch: Path, *jars: Path, heap: str = "1g") -> Iterator[Flink]:
    """Start Flink with Iceberg's jar and more, and stop it at the end; its log is `scratch/flink.log`."""
    if not FLINK.is_dir():
        pytest.fail("Flink is not installed: make engines")
    with (
        (scratch / "flink.log").open("w", encoding="utf-8") as log,
        _jvm(scratch, log, jars, heap) as gateway,
        _cluster(gateway.jvm, scratch) as cluster,
    ):
        yield Flink(gateway.jvm, cluster.getRestAddress().get().getPort())


@contextmanager
def _jvm(scratch: Path, log: TextIO, more_jars: Sequence[Path], heap: str) -> Iterator[JavaGateway]:
    jars = [fetch(RUNTIME), *(pyspark_jar(pattern) for pattern in HADOOP), *more_jars]
    port, token, process = launch_gateway(
        jarpath=str(pyspark_jar("py4j-*.jar")),
        classpath=":".join([str(FLINK / "pyflink" / "lib" / "*"), *map(str, jars)]),
        javaopts=[
            *(f"-Xmx{heap}", f"-Djava.io.tmpdir={scratch}", "-Dorg.apache.logging.log4j.level=WARN"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        ],
        die_on_exit=True,
        redirect_stdout=log,
        redirect_stderr=log,
        java_path=str(require_java().path),
        enable_auth=True,
        return_proc=True,
    )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        yield gateway
        gateway.close()
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()  # which it ends upon
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _cluster(jvm: Any, scratch: Path) -> Iterator[JavaObject]:
    """Job manager and task manager of a session cluster, in one process."""
    options = {
        "rest.bind-port": "0",
        "io.tmp.dirs": str(scratch),
        "taskmanager.memory.managed.size": "32m",
        "taskmanager.memory.network.min": "16m",
        "taskmanager.memory.network.max": "16m",
    }
    minicluster = jvm.org.apache.flink.runtime.minicluster
    builder = minicluster.MiniClusterConfiguration.Builder()
    builder.setConfiguration(jvm.org.apache.flink.configuration.Configuration.fromMap(options))
    builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(8)
    builder.setCommonBindAddress("127.0.0.1")
    cluster = minicluster.MiniCluster(builder.build())
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()
