"""An HDFS of separate processes, each of which may be killed, frozen and started again: name nodes and data nodes.

With two name nodes, they share their edits in a directory, and the one that `activate` names is active.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import httpx

from firn.embedded.ports import LOOPBACK, free_port
from firn.embedded.process import GuardedProcess, read_last_lines
from firn.hdfs import files
from tests.integration.hdfs.mini_cluster import LOG, java_command
from tests.waiting import wait_for

SERVICE = "lake"
"""The name service of two name nodes."""
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_START_SECONDS = 180
_SETTINGS = {
    "dfs.namenode.file.close.num-committed-allowed": "1",
    "dfs.namenode.fs-limits.min-block-size": "1024",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.datanode.address": f"{LOOPBACK}:0",
    "dfs.datanode.http.address": f"{LOOPBACK}:0",
    "dfs.datanode.ipc.address": f"{LOOPBACK}:0",
    "dfs.ha.tail-edits.period": "1",
}


@dataclass
class Daemons:
    """The processes by name (`nn1`, `dn1`, …), their directory, and the address that clients use."""

    directory: Path
    name_nodes: tuple[str, ...] = ("nn1",)
    data_nodes: tuple[str, ...] = ("dn1", "dn2")
    own_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the nodes that clients do not have."""
    host: str = LOOPBACK
    """The name of the machine in the addresses of name nodes."""
    core: Mapping[str, str] = field(default_factory=dict)
    """Further settings of `core-site.xml`."""
    java: tuple[str, ...] = ()
    """Further options of each Java."""
    administrator: Mapping[str, str] = field(default_factory=dict)
    """Further environment of the tools of HDFS's superuser."""
    running: dict[str, GuardedProcess] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the ports, which name nodes keep when they are started again, and write the configuration."""
        for name in (*self.name_nodes, *(f"{name} http" for name in self.name_nodes)):
            self.ports[name] = free_port()
        self.conf_dir.mkdir(parents=True)
        (self.conf_dir / "log4j2.properties").write_text(LOG, encoding="utf-8")
        _write(self.conf_dir / "core-site.xml", {"fs.defaultFS": self.uri, **self.core})
        _write(self.conf_dir / "hdfs-site.xml", {**_SETTINGS, **self._names()})

    @property
    def conf_dir(self) -> Path:
        """As operators have it in /etc/hadoop/conf."""
        return self.directory / "conf"

    @property
    def uri(self) -> str:
        """The file system."""
        return f"hdfs://{SERVICE}" if self._is_ha else f"hdfs://{self.host}:{self.ports['nn1']}"

    @property
    def _is_ha(self) -> bool:
        return len(self.name_nodes) > 1

    def _names(self) -> dict[str, str]:
        if not self._is_ha:
            address = f"{self.host}:{self.ports['nn1']}"
            return {"dfs.namenode.rpc-address": address, **self._http("nn1", "")}
        settings = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(self.name_nodes),
            "dfs.namenode.shared.edits.dir": (self.directory / "edits").as_uri(),
            f"dfs.client.failover.proxy.provider.{SERVICE}": "org.apache.hadoop.hdfs.server.namenode.ha."
            "ConfiguredFailoverProxyProvider",
        }
        for name in self.name_nodes:
            settings[f"dfs.namenode.rpc-address.{SERVICE}.{name}"] = f"{self.host}:{self.ports[name]}"
            settings |= self._http(name, f".{SERVICE}.{name}")
        return settings

    def _http(self, name: str, suffix: str) -> dict[str, str]:
        return {f"dfs.namenode.http-address{suffix}": f"{LOOPBACK}:{self.ports[f'{name} http']}"}

    # -- the processes ---------------------------------------------------------------------------------------------

    def format(self) -> None:
        """Make an empty file system."""
        (self.directory / "edits").mkdir()
        self._run(*self._words("nn1"), "-format", "-nonInteractive")
        for name in self.name_nodes[1:]:
            shutil.copytree(self.directory / "nn1", self.directory / name)

    def start(self, *names: str) -> None:
        """Start those of the named processes that do not run."""
        for name in names:
            if name not in self.running:
                self.running[name] = GuardedProcess(
                    self._words(name), log=self.directory / f"{name}.log", cwd=self.directory
                )

    def kill(self, name: str) -> None:
        """Kill a process at once: its Java, and then the guard of it."""
        process = self.running.pop(name)
        os.kill(self._java_below(process._guard.pid), signal.SIGKILL)
        process.stop()

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Let a process stand still: whoever calls it gets no answer, and its calls happen later."""
        child = self._java_below(self.running[name]._guard.pid)
        os.kill(child, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(child, signal.SIGCONT)

    def stop(self) -> None:
        for process in self.running.values():
            process.stop()
        self.running.clear()

    @staticmethod
    def _java_below(guard: int) -> int:
        return int(Path(f"/proc/{guard}/task/{guard}/children").read_text(encoding="ascii").split()[0])

    def _words(self, name: str) -> list[str]:
        is_name_node = name in self.name_nodes
        directory = self.directory / name
        own = {"dfs.namenode.name.dir" if is_name_node else "dfs.datanode.data.dir": directory.as_uri()}
        own |= self.own_settings
        if is_name_node and self._is_ha:
            own["dfs.ha.namenode.id"] = name
        options = [word for key, value in own.items() for word in ("-D", f"{key}={value}")]
        return [*self._java(name), _NAME_NODE if is_name_node else _DATA_NODE, *options]

    def _java(self, name: str) -> list[str]:
        logs = self.directory / "logs" / name
        return java_command(self.conf_dir, f"-Dhadoop.log.dir={logs}", "-Xmx256m", *self.java)

    def _run(self, *command: str) -> None:
        environment = {**os.environ, **self.administrator}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_START_SECONDS, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr

    # -- what an administrator does --------------------------------------------------------------------------------

    def set_safe_mode(self, *, on: bool) -> None:
        self._run(*self._java("admin"), _ADMIN, "-safemode", "enter" if on else "leave")

    def run_tool(self, tool: str, *arguments: str) -> None:
        """Run a program of Hadoop with the cluster's configuration."""
        self._run(*self._java("admin"), tool, *arguments)

    def activate(self, name: str) -> None:
        """Make a standby the active name node; the other one is dead or a standby."""
        self.wait_for_answer(name)
        self._run(*self._java("admin"), _HA_ADMIN, "-transitionToActive", "--forceactive", name)

    def wait_for_answer(self, name: str) -> None:
        """Wait until a name node that starts has read its names."""
        wait_for(lambda: self._is_open(name), f"{name} answers", seconds=_START_SECONDS)

    def _is_open(self, name: str) -> bool:
        assert self.running[name].exit_status is None, read_last_lines(self.directory / f"{name}.log")
        return bool(self._state(name))

    def wait(self) -> None:
        """Wait until all data nodes are there and somebody can write."""
        wait_for(self._is_whole, "the data nodes", seconds=_START_SECONDS)
        wait_for(self._can_write, "a file is written", seconds=_START_SECONDS)

    def _is_whole(self) -> bool:
        for name, process in self.running.items():
            assert process.exit_status is None, read_last_lines(self.directory / f"{name}.log")
        return any(
            state.get("NumLiveDataNodes") == len(self.data_nodes) and state.get("FSState") == "Operational"
            for state in map(self._state, self.name_nodes)
        )

    def _can_write(self) -> bool:
        path = f"{self.uri}/ready-{time.monotonic_ns()}"
        try:
            files.write_new(path, b"x")
            files.delete(path)
        except OSError:
            return False
        return True

    def _state(self, name: str) -> Mapping[str, object]:
        """What the name node shows of itself; empty if it does not answer."""
        query = "Hadoop:service=NameNode,name=FSNamesystemState"
        url = f"http://{LOOPBACK}:{self.ports[f'{name} http']}/jmx"
        try:
            beans = httpx.get(url, params={"qry": query}, timeout=5).json()["beans"]
        except (httpx.TransportError, ValueError, KeyError):
            return {}
        return dict(beans[0]) if beans else {}


def _write(path: Path, properties: Mapping[str, str]) -> None:
    items = "".join(
        f"<property><name>{name}</name><value>{escape(text)}</value></property>\n" for name, text in properties.items()
    )
    path.write_text(f"<configuration>\n{items}</configuration>\n", encoding="utf-8")


@contextmanager
def daemons(directory: Path, *, name_nodes: int = 1) -> Iterator[Daemons]:
    """A running HDFS; of two name nodes the first is active. It ends with the block."""
    daemons = Daemons(directory, tuple(f"nn{number + 1}" for number in range(name_nodes)))
    daemons.format()
    try:
        daemons.start(*daemons.name_nodes, *daemons.data_nodes)
        if name_nodes > 1:
            daemons.activate("nn1")
        daemons.wait()
        yield daemons
    finally:
        daemons.stop()
