"""The HDFS that all tests of this folder share, and directories of their own in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.hdfs.mini_cluster import MiniCluster, shared_cluster
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.integration.hdfs.stores import Store
from tests.s3_fixtures import client_of_s3, s3_server


@pytest.fixture(scope="session")
def cluster() -> MiniCluster:
    return shared_cluster()


@pytest.fixture(scope="module")
def yarn(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniYarn]:
    running = MiniYarn(cluster, tmp_path_factory.mktemp("yarn"))
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as endpoint:
        client_of_s3(endpoint).create_bucket(Bucket="stores")
        keys = {"s3.access-key-id": "admin", "s3.secret-access-key": "admin", "s3.region": "us-east-1"}
        yield {"s3.endpoint": endpoint, **keys}


@pytest.fixture(params=["local", "hdfs", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    unique = uuid4().hex
    match request.param:
        case "hdfs":
            cluster: MiniCluster = request.getfixturevalue("cluster")
            return Store("hdfs", f"{cluster.uri}/{unique}", {})
        case "s3":
            return Store("s3", f"s3://stores/{unique}", request.getfixturevalue("s3"))
        case _:
            return Store("local", tmp_path.as_uri(), {})


@pytest.fixture
def hdfs(cluster: MiniCluster) -> Store:
    return Store("hdfs", f"{cluster.uri}/{uuid4().hex}", {})
