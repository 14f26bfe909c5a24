"""One Spark for the whole test run, because a JVM takes longer to start than most tests take; servers of tests."""

from __future__ import annotations

import atexit
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import SparkSession

from firn.embedded.jars import jar_set_dir
from firn.spark.jars import KAFKA_CONNECTOR, spark_conf
from firn.spark.sessions import catalog_conf
from tests.forked_programs import ForkedProgram

# Tests run each query once or twice, on a few rows: to generate and compile its code takes a quarter of their CPU time.
# Optimizers in their own processes keep Spark's settings, as in production, except optimizers that a test kills.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    **INTERPRETED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.driver.memory": "1500m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@cache
def shared_spark() -> SparkSession:
    """The session whose JVM all tests share. A test that adds catalogs makes a `newSession()` of it."""
    # PySpark leaves the pipe to its JVM open on purpose; Python's warnings about it are errors here.
    warnings.filterwarnings("ignore", category=ResourceWarning)
    builder = SparkSession.builder.master("local[2]").appName("firn tests")
    # Tests of streams need the connector to Kafka, others do without: they run before `make parts` too.
    jars = spark_conf(kafka=jar_set_dir(KAFKA_CONNECTOR).is_dir())
    session = builder.config(map={**jars, **ICEBERG}).getOrCreate()
    atexit.register(session.stop)
    return session


def hadoop_catalog(name: str, warehouse: Path) -> SparkSession:
    """A session with an Iceberg catalog that needs no server: its tables are directories."""
    session = shared_spark().newSession()
    session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    session.conf.set(f"spark.sql.catalog.{name}.warehouse", str(warehouse))
    return session


QUIET = {
    "FIRN_BACKGROUND__PLAN_SECONDS": "3600",
    "FIRN_BACKGROUND__REAP_SECONDS": "2",
    "FIRN_BACKGROUND__OPERATION_SECONDS": "4",
    "FIRN_BACKGROUND__HIVE_EVENTS_SECONDS": "15",
    "FIRN_BACKGROUND__PURGE_SECONDS": "15",
    "FIRN_OPTIMIZERS__SCALING_SECONDS": "15",
}
"""Ten servers may stand idle while a test runs: looking for work each second would take a quarter of the CPU time."""


@dataclass(frozen=True, kw_only=True)
class ServerProcess:
    """A real server in its own process, and a client of it."""

    url: str
    data_dir: Path
    process: ForkedProgram
    http: httpx.Client
    first_token: str | None = None
    """The first administrator's token, if the server is new and has access control; otherwise None."""

    def post(self, path: str, body: object = None) -> dict[str, Any]:
        """Send a POST to the management API and return its answer; fail if it is a refusal or an error."""
        answer = self.http.post(f"/api/v1/{path}", json=body)
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def get(self, path: str) -> dict[str, Any]:
        try:
            answer = self.http.get(f"/api/v1/{path}")
        except httpx.RemoteProtocolError:  # the server has just closed the idle connection
            answer = self.http.get(f"/api/v1/{path}")
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def set_property(self, table: str, key: str, value: str) -> None:
        """Set a property of a table of the catalog `lake`."""
        answer = self.http.patch(f"/api/v1/catalogs/lake/tables/{table}/properties", json={"set": {key: value}})
        assert answer.is_success, answer.text

    def allow(self, directory: Path) -> None:
        """Allow a directory as a location of tables and files of the catalog `lake`."""
        locations = self.get("catalogs/lake")["properties"].get("firn.storage.allowed-locations", "")
        allowed = {"firn.storage.allowed-locations": ",".join(filter(None, (locations, directory.as_uri())))}
        answer = self.http.patch("/api/v1/catalogs/lake/properties", json={"set": allowed})
        assert answer.is_success, answer.text


@dataclass(frozen=True, kw_only=True)
class RunningServer(ServerProcess):
    """A server, and a Spark session with its catalog `lake`."""

    spark: SparkSession

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The sorted rows of a query."""
        return sorted((tuple(row) for row in self.spark.sql(statement).collect()), key=repr)


def wait_for_images(server: httpx.Client, token: str | None = None) -> None:
    """Let readers wait for images for 60 s instead of 5, so that they see every commit on a busy machine too."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    waiting = {"set": {"firn.read.max-wait": "60 s"}}
    answer = server.patch("/api/v1/catalogs/lake/policy", json=waiting, headers=headers)
    assert answer.is_success, answer.text


def interpret_queries(directory: Path) -> dict[str, str]:
    """The environment of a process that starts its own Spark: without generated code."""
    conf = directory / "spark-conf"
    conf.mkdir(exist_ok=True)
    settings = {**INTERPRETED, "spark.ui.enabled": "false"}
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    (conf / "spark-defaults.conf").write_text(lines, encoding="utf-8")
    return {"SPARK_CONF_DIR": str(conf)}


@contextmanager
def server_process(data_dir: Path, **environment: str) -> Iterator[ServerProcess]:
    """Run a server that plans nothing by itself, on a free port unless FIRN_PORT names one."""
    arguments = ["--data-dir", str(data_dir), "--port", environment.get("FIRN_PORT", "0")]
    log = data_dir.parent / f"{data_dir.name}.log"
    with ForkedProgram("server", *arguments, environment={**os.environ, **QUIET, **environment}, log=log) as process:
        try:
            token, url = read_gateway(process)
            with httpx.Client(base_url=url, timeout=30) as http:
                yield ServerProcess(url=url, data_dir=data_dir, process=process, http=http, first_token=token)
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def running_server(data_dir: Path, **environment: str) -> Iterator[RunningServer]:
    """Run a server that plans nothing by itself, and a Spark session with its catalog `lake`."""
    with server_process(data_dir, **environment) as server:
        wait_for_images(server.http)
        session = shared_spark().newSession()
        for key, value in catalog_conf(server.url, "lake").items():
            session.conf.set(key, value)
        yield RunningServer(url=server.url, data_dir=data_dir, process=server.process, http=server.http, spark=session)


def address(process: ForkedProgram) -> str:
    """Wait until a started server answers, and return its address."""
    return read_gateway(process)[1]


def read_gateway(process: ForkedProgram) -> tuple[str | None, str]:
    """Read the first administrator's token, if the server prints one, and the server's address."""
    token = None
    for line in process.stdout:
        if token_match := re.search(r"token.*: (firn_\w+)", line):
            token = token_match.group(1)
        if match := re.search(r"http://\S+", line):
            return token, match.group()
    raise AssertionError("the server ended before it answered: its log is beside its data directory")
