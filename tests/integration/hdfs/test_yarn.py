"""An optimizer that the server starts on YARN, with the package from HDFS: it merges and leaves, and is replaced.

Each test costs minutes of CPU, most of them in Spark's own starts, so they run with the long histories.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

import firn
from firn.embedded.ports import free_port
from firn.embedded.pyspark_jars import pyspark_jars
from firn.hdfs import files
from firn.hdfs.registration import register_file_io
from firn.node_package import write_package
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.integration.hdfs.test_catalog import SCHEMA, rows
from tests.spark_fixtures import INTERPRETED, ServerProcess, server_process, wait_for_images

pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(1800)]

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


@pytest.fixture(scope="module")
def yarn(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniYarn]:
    running = MiniYarn(cluster, tmp_path_factory.mktemp("yarn"))
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture(scope="module")
def package(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The settings of a launch that name the package on HDFS."""
    written = write_package(tmp_path_factory.mktemp("package") / "firn.zip")
    for path in (written.archive, *written.jars):
        files.write_new(f"{cluster.uri}/apps/firn/{path.name}", path.read_bytes())
    directory = f"{cluster.uri}/apps/firn"
    return {
        "archive": f"{directory}/{written.archive.name}",
        "jars": [f"{directory}/{jar.name}" for jar in written.jars],
    }


@pytest.fixture(scope="module")
def server(cluster: MiniCluster, yarn: MiniYarn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose optimizers have a token: it prints the first one when it starts for the first time."""
    data, port = tmp_path_factory.mktemp("server") / "data", str(free_port())
    settings = {"FIRN_PORT": port, "FIRN_WAREHOUSE": f"{cluster.uri}/yarn", **WATCHED}
    settings["FIRN_HADOOP__CONF_DIR"] = str(yarn.conf_dir)
    with server_process(data, **settings) as first:
        token = first.first_token
    assert token is not None
    settings |= {"FIRN_OPTIMIZERS__TOKEN": token, "FIRN_OPTIMIZERS__SERVER": f"http://127.0.0.1:{port}"}
    with server_process(data, **settings) as running:
        running.http.headers["Authorization"] = f"Bearer {token}"
        wait_for_images(running.http)
        yield running


@pytest.fixture(scope="module")
def catalog(server: ServerProcess) -> Catalog:
    register_file_io()
    token = server.http.headers["Authorization"].removeprefix("Bearer ")
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", token=token)


def read(server: ServerProcess, name: str) -> dict[int, str]:
    token = server.http.headers["Authorization"].removeprefix("Bearer ")
    with firn.connect(server.url, token=token) as client:
        table = client.scan(f"keyed.{name}").to_arrow()
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def wait_for(
    reached: Callable[[], bool], what: str, server: ServerProcess, *, seconds: float = 900, pause: float = 1
) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"never came: {what}; {server.http.get(LAUNCH).text}"
        time.sleep(pause)


def change_launch(server: ServerProcess, **settings: Any) -> dict[str, Any]:
    answer = server.http.patch(LAUNCH, json=settings)
    assert answer.is_success, answer.text
    launch: dict[str, Any] = answer.json()
    return launch


def start_optimizers(server: ServerProcess, package: dict[str, Any], **settings: Any) -> None:
    launch = {"kind": "spark-submit", "master": "yarn", "deploy_mode": "cluster", "memory": "1g", "conf": CONF}
    environment = {"PYSPARK_PYTHON": BARE_PYTHON, "SPARK_LOCAL_IP": "127.0.0.1", **JAVA}
    scaling = {"cool_down_seconds": 0, "queue_seconds": 1, "start_seconds": 1200}
    change_launch(server, **launch, **package, environment=environment, scaling=scaling, **settings)


def end_optimizers(server: ServerProcess, yarn: MiniYarn, ended: int) -> None:
    """Wait until YARN counts so many applications that have ended, and no other."""
    change_launch(server, kind="none")
    wait_for(lambda: len(yarn.list_ended()) == ended, "the end of the application", server)


def create_table(catalog: Catalog, name: str) -> None:
    """A keyed table whose merge needs executors."""
    catalog.create_namespace_if_not_exists("keyed")
    properties = {"firn.primary-key": "id", "firn.merge.mode": "rewrite"}
    catalog.create_table(f"keyed.{name}", SCHEMA, properties=properties).append(rows((1, "a"), (2, "b")))
    catalog.load_table(f"keyed.{name}").append(rows((2, "newer"), (3, "c")))


def request_merge(server: ServerProcess, name: str) -> Callable[[], bool]:
    job = server.post(f"catalogs/lake/tables/keyed.{name}/jobs", {"kind": "merge"})["id"]
    return lambda: bool(server.get(f"jobs/{job}")["status"] == "succeeded")


def get_last_error(server: ServerProcess) -> str:
    """Why the last launch failed; empty if none has."""
    return server.http.get(LAUNCH).json()["last_error"] or ""


def list_optimizers(server: ServerProcess) -> list[dict[str, Any]]:
    registered: list[dict[str, Any]] = server.http.get("/api/v1/optimizers").json()
    return registered


def list_launches(server: ServerProcess) -> list[dict[str, Any]]:
    """Newest first."""
    launches: list[dict[str, Any]] = server.http.get(LAUNCH).json()["launches"]
    return launches


def test_an_optimizer_on_yarn_merges_and_leaves(
    server: ServerProcess, catalog: Catalog, yarn: MiniYarn, package: dict[str, Any]
) -> None:
    create_table(catalog, "merged")
    worked, ended = len(yarn.list_working()), len(yarn.list_ended())
    merged = request_merge(server, "merged")
    start_optimizers(server, package, queue="nope")
    reason = re.compile(r"submitted by user \w+ to unknown queue: nope")
    wait_for(lambda: reason.search(get_last_error(server)) is not None, "the refusal of the queue", server)
    assert "\tat " not in get_last_error(server)

    change_launch(server, queue="default")
    wait_for(merged, "the merge on YARN", server)
    assert len(yarn.list_working()) == worked + 1
    assert {optimizer["facts"]["master"] for optimizer in list_optimizers(server)} == {"yarn"}
    assert read(server, "merged") == {1: "a", 2: "newer", 3: "c"}

    end_optimizers(server, yarn, ended + 2)
    on_nope, on_default = yarn.list_ended()[-2:]
    assert (on_nope["queue"], on_nope["finalStatus"]) == ("nope", "FAILED")
    assert (on_default["queue"], on_default["finalStatus"]) == ("root.default", "SUCCEEDED")
    assert on_default["name"] == f"firn-optimizer-default-{list_launches(server)[0]['id']}"


def test_a_lost_executor_and_a_dead_driver_are_replaced(
    server: ServerProcess, catalog: Catalog, yarn: MiniYarn, package: dict[str, Any]
) -> None:
    create_table(catalog, "killed")
    worked, ended = len(yarn.list_working()), len(yarn.list_ended())
    merged = request_merge(server, "killed")
    start_optimizers(server, package, queue="default")
    wait_for(yarn.kill_working_executor, "an executor with a task", server, pause=0.1)
    wait_for(merged, "the merge on YARN", server)
    assert len(yarn.list_working()) == worked + 2, "the executor was not replaced"
    assert read(server, "killed") == {1: "a", 2: "newer", 3: "c"}

    (first,) = list_optimizers(server)
    os.kill(first["pid"], signal.SIGKILL)
    policy = {"set": {"firn.merge.mode": "auto"}}  # this one needs no executor
    changed = server.http.patch("/api/v1/catalogs/lake/tables/keyed.killed/policy", json=policy)
    assert changed.is_success, changed.text
    catalog.load_table("keyed.killed").append(rows((4, "d")))
    wait_for(request_merge(server, "killed"), "the merge of the next optimizer", server)
    assert read(server, "killed") == {1: "a", 2: "newer", 3: "c", 4: "d"}
    newest, died = list_launches(server)[:2]
    assert (newest["status"], died["status"]) == ("working", "failed")
    assert "User application exited with" in died["reason"]
    assert newest["id"] in [optimizer["launch"] for optimizer in list_optimizers(server)]

    end_optimizers(server, yarn, ended + 2)
    assert [app["finalStatus"] for app in yarn.list_ended()][-2:] == ["FAILED", "SUCCEEDED"]
