"""`make demo CLUSTER=1`: the warehouse and the Hive tables lie on an HDFS of a name node and two data nodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.hdfs.configuration import CONF_DIR
from tests.integration.hdfs.mini_cluster import MiniCluster

WAREHOUSE = "FIRN_WAREHOUSE"


@contextmanager
def running_hdfs(directory: Path) -> Iterator[str]:
    """Start an empty HDFS in a directory, point this process's children at it, and yield its address.

    It ends with the block, and its files with it. Raises JarsUnavailable without the jars of `make clusters`.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    cluster = MiniCluster(directory)
    try:
        cluster.wait()
        os.environ[CONF_DIR] = str(cluster.conf_dir)
        os.environ[WAREHOUSE] = f"{cluster.uri}/warehouse"
        yield cluster.uri
    finally:
        cluster.stop()
