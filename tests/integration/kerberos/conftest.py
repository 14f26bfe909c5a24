"""The secure HDFS and the metastore that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kerberos.cluster import SecureCluster, SecureHdfs, add_metastore, secure_hdfs


@pytest.fixture(scope="package")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    """It is in the environment of this process until the last test of the folder has ended."""
    with secure_hdfs(tmp_path_factory.mktemp("secure")) as running:
        yield running


@pytest.fixture(scope="package")
def cluster(hdfs: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with add_metastore(hdfs, tmp_path_factory.mktemp("secure-hive")) as running:
        yield running
