"""The secure HDFS and the metastore that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from thrift.transport.TSocket import TSocket

from firn.embedded.ports import LOOPBACK
from tests.integration.kerberos.clients import Clients
from tests.integration.kerberos.cluster import SECURITY, SecureCluster, SecureHdfs, add_metastore, secure_hdfs
from tests.server.metastore.hive_side import HiveSide


@pytest.fixture(scope="package")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    """It is in the environment of this process until the last test of the folder has ended."""
    with secure_hdfs(tmp_path_factory.mktemp("secure")) as running:
        yield running


@pytest.fixture(scope="package")
def cluster(hdfs: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with add_metastore(hdfs, tmp_path_factory.mktemp("secure-hive")) as running:
        yield running


@pytest.fixture(scope="package")
def hive(cluster: SecureCluster) -> Iterator[HiveSide]:
    """Another program at the metastore, as HDFS's superuser."""
    transport = SECURITY.transport(TSocket(LOOPBACK, cluster.metastore.port), LOOPBACK)
    side = HiveSide(cluster.metastore.uri, f"{cluster.hdfs.uri}/hive", transport)
    side.add_database("db")
    yield side
    side.close()


@pytest.fixture
def clients(cluster: SecureCluster, tmp_path: Path) -> Iterator[Clients]:
    clients = Clients(cluster, tmp_path)
    yield clients
    clients.close()
