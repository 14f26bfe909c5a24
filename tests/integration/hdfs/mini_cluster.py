"""An HDFS of our own in one process: Hadoop's mini cluster with PySpark's Hadoop, a name node and two data nodes.

`python -m tests.integration.hdfs.mini_cluster` fetches the jars and prints where they are.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

from firn.embedded.errors import JarsUnavailable
from firn.embedded.jars import cache_dir, run_ivy
from firn.embedded.ports import LOOPBACK
from firn.embedded.process import GuardedProcess, read_last_lines, require_java
from firn.embedded.pyspark_jars import pyspark_jar
from firn.hdfs import files
from tests.integration.fetching import report

_HERE = Path(__file__).parent
_JARS = _HERE / "mini-cluster.xml"
_SETTINGS = _HERE.parent / "engines" / "trino-settings.xml"
_OF_PYSPARK = (
    *("hadoop-client-api-*", "hadoop-client-runtime-*", "jcl-over-slf4j-*", "jul-to-slf4j-*"),
    *("slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*", "log4j-1.2-api-*"),
)
_MANAGER = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_ERASURE_CODING = "org.apache.hadoop.hdfs.tools.ECAdmin"
_START_SECONDS = 180
_SETTINGS_OF_NODES = {
    # With two data nodes, a closed file need not wait for the reports of both, which takes half a second.
    "dfs.namenode.file.close.num-committed-allowed": "1",
    "dfs.namenode.fs-limits.min-block-size": "1024",
    "dfs.namenode.ec.system.default.policy": "XOR-2-1-1024k",
}
LOG = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
METRICS = "*.period=1\n"
"""The name node shows its counters as they were up to a second ago; ten seconds are the default."""


def wanted() -> list[str]:
    """Names of the jars that PySpark does not bring."""
    return [f"{jar.get('name')}-{jar.get('rev')}.jar" for jar in ET.parse(_JARS).findall(".//dependency")]


def home() -> Path:
    """Where these jars are once they were fetched, whole: they are moved there."""
    return cache_dir() / f"hdfs-{zlib.crc32(' '.join(wanted()).encode()):08x}"


def fetch() -> Path:
    """The jars, fetched if they are not there yet; Ivy compares checksums.  JarsUnavailable with its own words."""
    if home().is_dir():
        return home()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        output = run_ivy(
            *("-settings", str(_SETTINGS)),
            *("-cache", str(Path(scratch, "ivy"))),
            *("-ivy", str(_JARS)),
            *("-retrieve", f"{scratch}/home/[artifact]-[revision].[ext]"),
        )
        missing = [name for name in wanted() if not Path(scratch, "home", name).is_file()]
        if missing:
            raise JarsUnavailable(f"Ivy did not fetch {', '.join(missing)}. Its last words:\n{output}")
        Path(scratch, "home").rename(home())
    return home()


class MiniCluster:
    """A running HDFS on loopback, on ports that the system chose, in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        host: str = LOOPBACK,
        settings: Mapping[str, str] | None = None,
        java: Sequence[str] = (),
    ) -> None:
        """Start it; EmbeddedError without its jars.  `wait` before the first use.

        `settings` are further ones of its nodes, `java` options of its JVM; clients call it at `host`.
        """
        if not home().is_dir():
            raise JarsUnavailable("HDFS for the tests is not installed: make clusters")
        self._directory, self._log = directory, directory / "hdfs.log"
        (directory / "log4j2.properties").write_text(LOG, encoding="utf-8")
        (directory / "hadoop-metrics2.properties").write_text(METRICS, encoding="utf-8")
        nodes = _SETTINGS_OF_NODES | dict(settings or {})
        self._process = GuardedProcess(
            [
                *java_command(
                    directory, *java, f"-Dtest.build.data={directory}/data", f"-Dhadoop.log.dir={directory}/logs"
                ),
                *(_MANAGER, "-format", "-nomr", "-datanodes", "2", "-nnport", "0", "-nnhttpport", "0"),
                *("-writeConfig", str(directory / "core-site.xml"), "-writeDetails", str(directory / "details.json")),
                *(word for name, value in nodes.items() for word in ("-D", f"{name}={value}")),
            ],
            log=self._log,
            cwd=directory,
        )
        self._host, self.uri = host, ""

    @property
    def conf_dir(self) -> Path:
        """A directory with the cluster's `core-site.xml`, as operators have it in /etc/hadoop/conf."""
        return self._directory

    def wait(self) -> MiniCluster:
        """Wait until it stores a block: the name node answers seconds before the data nodes do."""
        until, details = time.monotonic() + _START_SECONDS, self._directory / "details.json"
        while True:
            assert self._process.exit_status is None, read_last_lines(self._log)
            assert time.monotonic() < until, read_last_lines(self._log)
            time.sleep(0.2)
            try:
                self.uri = f"hdfs://{self._host}:{json.loads(details.read_text(encoding='utf-8'))['namenode_port']}"
                files.write_new(f"{self.uri}/ready", b"x")
            except (OSError, ValueError):
                continue
            return self

    def administer(self, *arguments: str) -> str:
        """Run a command of `hdfs dfsadmin`; returns what it prints."""
        return run_tool(self._directory, _ADMIN, "-fs", self.uri, *arguments)

    def set_erasure_coding(self, path: str) -> None:
        """Let new files in a directory be erasure coded, by a policy that the client does not know."""
        run_tool(self._directory, _ERASURE_CODING, "-fs", self.uri, "-setPolicy", "-path", path)

    def stop(self) -> None:
        self._process.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def run_tool(directory: Path, tool: str, *arguments: str) -> str:
    """Run a program of Hadoop with the configuration of a directory; returns what it prints."""
    command = [*java_command(directory), tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def java_command(directory: Path, *options: str) -> list[str]:
    """The command of a JVM with Hadoop's classes and the configuration of a directory."""
    jars = [str(directory), f"{home()}/*", *(str(pyspark_jar(f"{name}.jar")) for name in _OF_PYSPARK)]
    return [str(require_java().path), "-Xmx512m", *options, "-cp", os.pathsep.join(jars)]


@cache
def shared_cluster() -> MiniCluster:
    """The cluster that all tests of this process share."""
    cluster = MiniCluster(Path(tempfile.mkdtemp(prefix="firn-hdfs-")))
    atexit.register(cluster.stop)
    return cluster.wait()


if __name__ == "__main__":
    sys.exit(report(fetch))
