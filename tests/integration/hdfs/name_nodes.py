"""A name node of a name service with high availability, which waits as a standby until it is made active."""

from __future__ import annotations

import time
from pathlib import Path
from xml.sax.saxutils import escape

from firn.embedded.ports import LOOPBACK, free_port, is_open
from firn.embedded.process import GuardedProcess, read_last_lines
from tests.integration.hdfs.mini_cluster import java_command, run_tool

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_START_SECONDS = 180


class StandbyNameNode:
    """The second name node of the name service `pair`; the first is missing. There are no data nodes."""

    uri = "hdfs://pair"

    def __init__(self, directory: Path) -> None:
        """Format it, start it, and wait until it listens. `directory` becomes the clients' configuration."""
        self.conf_dir, self._port = directory, free_port()
        self._write_settings()
        run_tool(directory, _NAME_NODE, "-format", "-nonInteractive")
        log = directory / "name-node.log"
        self._process = GuardedProcess([*java_command(directory), _NAME_NODE], log=log, cwd=directory)
        until = time.monotonic() + _START_SECONDS
        while not is_open(self._port):
            assert self._process.exit_status is None, read_last_lines(log)
            assert time.monotonic() < until, read_last_lines(log)
            time.sleep(0.2)

    def activate(self) -> None:
        """Make it the active name node."""
        run_tool(self.conf_dir, _ADMIN, "-transitionToActive", "--forceactive", "nn2")

    def stop(self) -> None:
        self._process.stop()

    def _write_settings(self) -> None:
        providers = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        properties = {
            "dfs.nameservices": "pair",
            "dfs.ha.namenodes.pair": "nn1,nn2",
            "dfs.ha.namenode.id": "nn2",
            "dfs.namenode.rpc-address.pair.nn1": f"{LOOPBACK}:1",
            "dfs.namenode.rpc-address.pair.nn2": f"{LOOPBACK}:{self._port}",
            "dfs.namenode.http-address.pair.nn1": f"{LOOPBACK}:1",
            "dfs.namenode.http-address.pair.nn2": f"{LOOPBACK}:0",
            "dfs.client.failover.proxy.provider.pair": providers,
            "dfs.namenode.name.dir": (self.conf_dir / "names").as_uri(),
            "dfs.namenode.shared.edits.dir": (self.conf_dir / "edits").as_uri(),
        }
        _write(self.conf_dir / "core-site.xml", {"fs.defaultFS": self.uri})
        # Defaults of HDFS would win over core-site.xml, and the name node would keep its names in /tmp.
        _write(self.conf_dir / "hdfs-site.xml", properties)


def _write(path: Path, properties: dict[str, str]) -> None:
    lines = "".join(
        f"<property><name>{name}</name><value>{escape(text)}</value></property>\n" for name, text in properties.items()
    )
    path.write_text(f"<configuration>\n{lines}</configuration>\n", encoding="utf-8")
