"""Optimizers that a server of the tests starts on the tests' YARN, with the package from HDFS."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.catalog import Catalog, load_catalog

from firn.embedded.ports import free_port
from firn.embedded.pyspark_jars import pyspark_jars
from firn.hdfs import files
from firn.hdfs.registration import register_file_io
from firn.node_package import write_package
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.spark_fixtures import INTERPRETED, ServerProcess, server_process, wait_for_images

BARE_PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""Has no package of Firn's: these come from the archive."""
LAUNCH = "/api/v1/groups/default/launch"
WATCHED = {
    "FIRN_ACCESS__ENABLED": "true",
    "FIRN_OPTIMIZERS__SCALING_SECONDS": "2",
    "FIRN_LEASE__SECONDS": "20",
    "FIRN_LEASE__HEARTBEAT_SECONDS": "4",
}
JAVA = {"JAVA_TOOL_OPTIONS": os.environ.get("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")}
CONF = {
    **INTERPRETED,
    "spark.ui.enabled": "false",
    "spark.yarn.jars": f"local:{pyspark_jars()}/*",
    "spark.executor.memory": "512m",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executorEnv.JAVA_TOOL_OPTIONS": JAVA["JAVA_TOOL_OPTIONS"],
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "1",
}


def upload_package(cluster: MiniCluster, directory: Path) -> dict[str, Any]:
    """Write the package and put it on HDFS; returns the settings of a launch that name it."""
    written = write_package(directory / "firn.zip")
    there = f"{cluster.uri}/apps/{uuid4().hex}"  # the modules of one process share the cluster
    for path in (written.archive, *written.jars):
        files.write_new(f"{there}/{path.name}", path.read_bytes())
    return {
        "archive": f"{there}/{written.archive.name}",
        "jars": [f"{there}/{jar.name}" for jar in written.jars],
    }


@contextmanager
def server_on_yarn(cluster: MiniCluster, yarn: MiniYarn, data: Path, **more: str) -> Iterator[ServerProcess]:
    """A server whose optimizers have a token: it prints the first one when it starts for the first time."""
    port = str(free_port())
    settings = {"FIRN_PORT": port, "FIRN_WAREHOUSE": f"{cluster.uri}/{data.parent.name}", **WATCHED, **more}
    settings["FIRN_HADOOP__CONF_DIR"] = str(yarn.conf_dir)
    with server_process(data, **settings) as first:
        token = first.first_token
    assert token is not None
    settings |= {"FIRN_OPTIMIZERS__TOKEN": token, "FIRN_OPTIMIZERS__SERVER": f"http://127.0.0.1:{port}"}
    with server_process(data, **settings) as running:
        running.http.headers["Authorization"] = f"Bearer {token}"
        wait_for_images(running.http)
        yield running


def token_of(server: ServerProcess) -> str:
    """The token of the first administrator."""
    return str(server.http.headers["Authorization"]).removeprefix("Bearer ")


def connect_catalog(server: ServerProcess) -> Catalog:
    """The server's catalog in PyIceberg."""
    register_file_io()
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", token=token_of(server))


def wait_for(
    reached: Callable[[], bool], description: str, server: ServerProcess, *, seconds: float = 900, pause: float = 1
) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"never came: {description}; {server.http.get(LAUNCH).text}"
        time.sleep(pause)


def change_launch(server: ServerProcess, **settings: Any) -> dict[str, Any]:
    answer = server.http.patch(LAUNCH, json=settings)
    assert answer.is_success, answer.text
    launch: dict[str, Any] = answer.json()
    return launch


def start_optimizers(
    server: ServerProcess, package: dict[str, Any], *, conf: Mapping[str, str] = CONF, java: str = "", **settings: Any
) -> None:
    """Have the server start optimizers on YARN; `java` are further options of the driver's JVM."""
    launch = {"kind": "spark-submit", "master": "yarn", "deploy_mode": "cluster", "memory": "1g", "conf": conf}
    options = {"JAVA_TOOL_OPTIONS": f"{JAVA['JAVA_TOOL_OPTIONS']} {java}".strip()}
    environment = {"PYSPARK_PYTHON": BARE_PYTHON, "SPARK_LOCAL_IP": "127.0.0.1", **options}
    scaling = {"cool_down_seconds": 0, "queue_seconds": 1, "start_seconds": 1200}
    change_launch(server, **launch, **package, environment=environment, scaling=scaling, **settings)


def end_optimizers(server: ServerProcess, yarn: MiniYarn, ended: int) -> None:
    """Wait until YARN counts so many applications that have ended, and no other."""
    change_launch(server, kind="none")
    wait_for(lambda: len(yarn.list_ended()) == ended, "the end of the application", server)
