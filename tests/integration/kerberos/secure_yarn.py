"""A YARN that demands Kerberos, beside the secure HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.hdfs import calls, files
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.integration.kerberos.cluster import KERBEROS, PROXIES, SecureHdfs
from tests.integration.kerberos.realm import NAME

YARN = f"yarn/localhost@{NAME}"


@contextmanager
def secure_yarn(cluster: SecureHdfs, directory: Path) -> Iterator[MiniYarn]:
    """Start it; `firn` and `hdfs` have home directories, into which Spark uploads."""
    cluster.realm.add(YARN)
    keytab = cluster.realm.export("yarn.keytab", YARN)
    settings = {f"yarn.{daemon}.principal": YARN for daemon in ("resourcemanager", "nodemanager")}
    settings |= {f"yarn.{daemon}.keytab": str(keytab) for daemon in ("resourcemanager", "nodemanager")}
    for user in ("firn", "hdfs"):
        files.make_directories(f"{cluster.hdfs.uri}/user/{user}")
        client, path = calls.connect(f"{cluster.hdfs.uri}/user/{user}")
        client.set_owner(path, user, user)
    yarn = MiniYarn(cluster.hdfs, directory, core=KERBEROS | PROXIES, settings=settings, java=[cluster.realm.java])
    try:
        yield yarn.wait()
    finally:
        yarn.stop()
