"""Later Hives than the one that PySpark brings: their own jars, and for the rest PySpark's.

`python -m tests.integration.metastore.later` fetches the jars and prints where they are.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from firn.embedded.errors import JarsUnavailable
from firn.embedded.hive_service import serve_handler
from firn.embedded.jars import cache_dir, run_ivy
from firn.embedded.metastore import EmbeddedMetastore
from firn.embedded.ports import LOOPBACK
from firn.embedded.pyspark_jars import pyspark_jars
from tests.integration.fetching import report

VERSIONS = ("3.1", "4.0")
ENGINE = "4.0-engine"
"""Not a metastore but what queries and writes: with the jars of the metastore of its version it is a whole Hive."""
_HERE = Path(__file__).parent
_SETTINGS = _HERE.parents[1] / "integration" / "engines" / "trino-settings.xml"
_WITHOUT = ("hive-", "datanucleus-", "javax.jdo-", "spark-", "scala-")
"""PySpark's jars that are of another Hive, or of no use to any."""
_WITHOUT_DUMPS = "org.apache.hadoop.hive.metastore.events.EventCleanerTask"
LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"
_SAME_IN_3 = ("datanucleus-", "javax.jdo-", "hive-storage-api-")


def wanted(version: str) -> list[str]:
    """Names of the jars that PySpark does not bring."""
    dependencies = ET.parse(_HERE / f"hive-{version}.xml").findall(".//dependency")
    return [f"{dependency.get('name')}-{dependency.get('rev')}.jar" for dependency in dependencies]


def home(version: str) -> Path:
    """Where these jars are once they were fetched, whole: they are moved there."""
    return cache_dir() / f"hive-metastore-{version}-{zlib.crc32(' '.join(wanted(version)).encode()):08x}"


def fetch(version: str) -> Path:
    """The jars, fetched if they are not there yet; Ivy compares checksums.  JarsUnavailable with its own words."""
    if home(version).is_dir():
        return home(version)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        ivy_output = run_ivy(
            *("-settings", str(_SETTINGS)),
            *("-cache", str(Path(scratch, "ivy"))),
            *("-ivy", str(_HERE / f"hive-{version}.xml")),
            *("-retrieve", f"{scratch}/home/[artifact]-[revision].[ext]"),
        )
        missing = [name for name in wanted(version) if not Path(scratch, "home", name).is_file()]
        if missing:
            raise JarsUnavailable(f"Ivy did not fetch {', '.join(missing)}. Its last words:\n{ivy_output}")
        Path(scratch, "home").rename(home(version))
    return home(version)


class LaterMetastore(EmbeddedMetastore):
    """One of Hive 3, which keeps a log of changes, or of Hive 4, which keeps none."""

    def __init__(self, version: str, data_dir: Path) -> None:
        super().__init__(data_dir, port=0)
        self._version = version

    def _jars(self) -> str:
        kept = _SAME_IN_3 if self._version < "4" else ()
        jars = [
            str(jar)
            for jar in sorted(pyspark_jars().glob("*.jar"))
            if jar.name.startswith(kept) or not jar.name.startswith(_WITHOUT)
        ]
        return ":".join([f"{home(self._version)}/*", *jars])

    def _settings(self) -> dict[str, str]:
        whole_hive = {
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": _WITHOUT_DUMPS,
        }
        listener = {"hive.metastore.transactional.event.listeners": LISTENER} if self._version < "4" else {}
        return super()._settings() | whole_hive | listener

    def _start_service(self, jvm: Any, port: int) -> None:
        metastore = jvm.org.apache.hadoop.hive.metastore
        socket = jvm.org.apache.thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(LOOPBACK, port))
        conf = metastore.conf.MetastoreConf.newMetastoreConf()
        name = "Firn's metastore"
        if callable(metastore.HMSHandler):  # Hive 4
            handler = metastore.HMSHandlerProxyFactory.getProxy(conf, metastore.HMSHandler(name, conf), False)
        else:
            bare = getattr(metastore, "HiveMetaStore$HMSHandler")(name, conf, False)
            handler = metastore.RetryingHMSHandler.getProxy(conf, bare, False)
        serve_handler(jvm, socket, handler, getattr(metastore.security, "TUGIContainingTransport$Factory")())


if __name__ == "__main__":
    sys.exit(report(*(partial(fetch, name) for name in (*VERSIONS, ENGINE))))
