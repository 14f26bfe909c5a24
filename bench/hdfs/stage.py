"""The HDFS of the tests and a local directory, with the same files on both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener
from xml.etree import ElementTree as ET

from firn.hdfs import calls, files
from tests.integration.hdfs.mini_cluster import MiniCluster

LOCAL, HDFS, WEB = "local", "hdfs", "webhdfs"
_THREADS = 16
_ENDING = "NumOps"
_COUNTERS = "Hadoop:service=NameNode,name=RpcDetailedActivityForPort*"
_OF_DATA_NODES = frozenset({"SendHeartbeat", "BlockReport", "BlockReceivedAndDeleted"})
_MARK = "GetContentSummary"
_WAIT_SECONDS, _POLL_SECONDS = 60.0, 0.3
"""The name node of the tests renews the counters that it shows each second, on a busy machine later."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Where both sides keep their files."""

    cluster: MiniCluster
    scratch: Path

    def locate(self, side: str, name: str) -> str:
        """The location of a directory on one side; WebHDFS has those of HDFS."""
        return (self.scratch / name).as_uri() if side == LOCAL else f"{self.cluster.uri}/bench/{name}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a server that reads this HDFS."""
        return {"FIRN_HADOOP__CONF_DIR": str(self.cluster.conf_dir)}

    def count_calls(self, action: Callable[[], object]) -> dict[str, int]:
        """Run the action, and count the requests that the name node answers meanwhile, by their names."""
        before = self._count_all_calls()
        action()
        after = self._count_all_calls()
        counts = {name: after[name] - before.get(name, 0) - (name == _MARK) for name in sorted(after)}
        return {name: count for name, count in counts.items() if count and name not in _OF_DATA_NODES}

    def _count_all_calls(self) -> dict[str, int]:
        """All requests until now. The name node shows them late: a call that nothing else makes comes last."""
        client, top = calls.connect(f"{self.cluster.uri}/")
        marks = self._read_counters().get(_MARK, 0)
        client.get_content_summary(top)
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            counters = self._read_counters()
            if counters.get(_MARK, 0) > marks:
                return counters
        raise AssertionError(f"the name node does not show a call within {_WAIT_SECONDS} s")

    def _read_counters(self) -> dict[str, int]:
        with build_opener(ProxyHandler({})).open(f"http://{self.web_address}/jmx?qry={_COUNTERS}") as answer:
            beans = json.load(answer)["beans"]
        counters = {name: int(value) for bean in beans for name, value in bean.items() if name.endswith(_ENDING)}
        return {name.removesuffix(_ENDING): n for name, n in counters.items() if not name.startswith("Overall")}

    @property
    def web_address(self) -> str:
        """Host and port at which the name node answers HTTP."""
        for setting in ET.parse(self.cluster.conf_dir / "core-site.xml").iter("property"):
            if setting.findtext("name") == "dfs.namenode.http-address":
                return str(setting.findtext("value"))
        raise RuntimeError("the cluster's settings do not name the address of its name node")


def start_sides(ends: ExitStack, scratch: Path) -> Sides:
    """Start the HDFS; EmbeddedError without its jars."""
    directory = scratch / "hdfs"
    directory.mkdir()
    cluster = MiniCluster(directory)
    ends.callback(cluster.stop)
    return Sides(cluster.wait(), scratch)


def create_empty_files(location: str, names: Sequence[str]) -> None:
    """Create empty files below a directory of HDFS. A file with a block would take ten times as long."""
    client, top = calls.connect(location)

    def create(name: str) -> None:
        client.create(f"{top}/{name}").close()

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(create, names))


def upload(directory: Path, paths: Sequence[Path], location: str) -> None:
    """Write local files to HDFS, below the same names, and as old as they are."""
    client, top = calls.connect(location)

    def write(path: Path) -> None:
        name, status = path.relative_to(directory).as_posix(), path.stat()
        files.write_new(f"{location}/{name}", path.read_bytes())
        modified_ms = int(status.st_mtime * 1000)
        client.set_times(f"{top}/{name}", modified_ms, modified_ms)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(write, paths))
