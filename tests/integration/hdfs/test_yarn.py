"""An optimizer that the server starts on YARN, with the package from HDFS: it merges and leaves, and is replaced.

Each test costs minutes of CPU, most of them in Spark's own starts, so they run with the long histories.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

import firn
from tests.integration.hdfs.launches import (
    LAUNCH,
    change_launch,
    connect_catalog,
    end_optimizers,
    server_on_yarn,
    start_optimizers,
    token_of,
    upload_package,
    wait_for,
)
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.integration.hdfs.test_catalog import SCHEMA, rows
from tests.spark_fixtures import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def package(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return upload_package(cluster, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def server(cluster: MiniCluster, yarn: MiniYarn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_on_yarn(cluster, yarn, tmp_path_factory.mktemp("yarn-server") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def catalog(server: ServerProcess) -> Catalog:
    return connect_catalog(server)


def read(server: ServerProcess, name: str) -> dict[int, str]:
    with firn.connect(server.url, token=token_of(server)) as client:
        table = client.scan(f"keyed.{name}").to_arrow()
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


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
