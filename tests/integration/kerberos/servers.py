"""Servers on the secure cluster, with nothing but a principal and a keytab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.kerberos.cluster import SecureCluster
from tests.spark_fixtures import ServerProcess, interpret_queries, server_process, wait_for_images


@contextmanager
def secure_server(cluster: SecureCluster, directory: Path, principal: str, keytab: Path) -> Iterator[ServerProcess]:
    """A server that starts an optimizer. `principal` is as in its settings, so that `_HOST` may stand in it."""
    settings = {
        **cluster.settings,
        **interpret_queries(directory),
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {cluster.realm.java}",
        "FIRN_HADOOP__PRINCIPAL": principal,
        "FIRN_HADOOP__KEYTAB": str(keytab),
        "FIRN_OPTIMIZERS__LOCAL": "1",
        "FIRN_OPTIMIZERS__SCALING_SECONDS": "1",
        "FIRN_BACKGROUND__OPERATION_SECONDS": "1",
        "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "1",
    }
    for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME"):
        settings[name] = "FILE:/nowhere"  # the settings win
    with server_process(directory / "data", **settings) as running:
        wait_for_images(running.http)
        yield running
