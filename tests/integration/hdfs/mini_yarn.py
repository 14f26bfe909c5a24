"""A YARN of our own beside the tests' HDFS: a resource manager and a node manager, from the mini cluster's jars.

JAXB's annotations are lost in these jars. So the REST service answers questions about numbers and states, but leaves
out name, queue and state of an application. The resource manager's log has a summary of each that has ended.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener
from xml.etree import ElementTree as ET

from firn.embedded.process import GuardedProcess, read_last_lines
from tests.integration.hdfs.mini_cluster import LOG, MiniCluster, java_command

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_ADDRESSES = (
    *("resourcemanager.address", "resourcemanager.scheduler.address", "resourcemanager.resource-tracker.address"),
    *("resourcemanager.admin.address", "resourcemanager.webapp.address"),
    *("nodemanager.address", "nodemanager.localizer.address", "nodemanager.webapp.address"),
)
_SUMMARIES = """
logger.summary.name = org.apache.hadoop.yarn.server.resourcemanager.RMAppManager$ApplicationSummary
logger.summary.level = info
"""
_EXECUTOR = b"YarnCoarseGrainedExecutorBackend"
_START_SECONDS = 180


class MiniYarn:
    """A running YARN on loopback with one queue, `default`."""

    def __init__(
        self,
        cluster: MiniCluster,
        directory: Path,
        *,
        core: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        java: Sequence[str] = (),
    ) -> None:
        """Start it; `wait` before the first use.

        `core` and `settings` are further ones of core-site.xml and yarn-site.xml, `java` options of its JVMs.
        """
        self.conf_dir, self._directory, self._java = directory / "conf", directory, java
        self.conf_dir.mkdir()
        self._addresses = dict(zip(_ADDRESSES, _free_addresses(len(_ADDRESSES)), strict=True))
        _write_settings(self.conf_dir / "core-site.xml", {"fs.defaultFS": cluster.uri, **(core or {})})
        _write_settings(self.conf_dir / "yarn-site.xml", self._settings() | dict(settings or {}))
        # Not in the directory of settings, which Spark sends to its containers.
        (directory / "log4j2.properties").write_text(LOG + _SUMMARIES, encoding="utf-8")
        self._processes = [self._start(name) for name in (_RESOURCE_MANAGER, _NODE_MANAGER)]

    def wait(self) -> MiniYarn:
        """Wait until the node takes containers."""
        until = time.monotonic() + _START_SECONDS
        while True:
            assert time.monotonic() < until, read_last_lines(self._directory / "yarn.log")
            assert all(process.exit_status is None for process in self._processes), self._directory
            time.sleep(0.3)
            with suppress(OSError, ValueError, KeyError):
                if self._has_active_node():
                    return self

    def list_ended(self) -> list[dict[str, str]]:
        """What the resource manager says of each application that has ended, oldest first: name, queue, finalStatus."""
        log = (self._directory / "yarn.log").read_text(encoding="utf-8")
        summaries = [dict(re.findall(r"(\w+)=([^,\n]*)", line)) for line in log.splitlines() if "appId=" in line]
        return sorted(summaries, key=lambda summary: summary["appId"])

    def kill_working_executor(self) -> bool:
        """Kill an executor of Spark that has begun a task; returns whether there was one."""
        for pid, container in self._list_containers():
            with suppress(OSError):
                if _EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes() and container in self.list_working():
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def list_working(self) -> list[str]:
        """The containers that have begun tasks of Spark, those among them that have ended."""
        logs = (self._directory / "containers").glob("*/*/stderr")
        return sorted(log.parent.name for log in logs if "Running task" in log.read_text(errors="replace"))

    def stop(self) -> None:
        """End it, and the containers, which survive their node manager."""
        for process in self._processes:
            process.stop()
        for pid, _ in self._list_containers():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _list_containers(self) -> list[tuple[int, str]]:
        """Processes of containers, with the name of the container, which is their directory's."""
        containers = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                directory = (entry / "cwd").readlink()
                if directory.is_relative_to(self._directory / "local"):
                    containers.append((int(entry.name), directory.name))
        return containers

    def _has_active_node(self) -> bool:
        url = f"http://{self._addresses['resourcemanager.webapp.address']}/ws/v1/cluster/metrics"
        with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
            return bool(json.load(answer)["activeNodes"])

    def _start(self, name: str) -> GuardedProcess:
        options = [
            *self._java,
            *("--add-opens", "java.base/java.lang=ALL-UNNAMED", f"-Dhadoop.log.dir={self._directory}/logs"),
            f"-Dlog4j2.configurationFile={self._directory}/log4j2.properties",
        ]
        environment = {"HADOOP_CONF_DIR": str(self.conf_dir), "PYTHONPATH": ""}  # containers inherit it
        return GuardedProcess(
            [*java_command(self.conf_dir, *options), name],
            log=self._directory / "yarn.log",
            cwd=self._directory,
            environment=environment,
        )

    def _settings(self) -> dict[str, str]:
        addresses = {f"yarn.{name}": address for name, address in self._addresses.items()}
        return addresses | {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.bind-host": "127.0.0.1",
            "yarn.nodemanager.resource.memory-mb": "6144",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": f"{self._directory}/local",
            "yarn.nodemanager.log-dirs": f"{self._directory}/containers",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
            "yarn.nodemanager.delete.debug-delay-sec": "600",
        }


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    root = ET.Element("configuration")
    for name, value in settings.items():
        setting = ET.SubElement(root, "property")
        ET.SubElement(setting, "name").text = name
        ET.SubElement(setting, "value").text = value
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _free_addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]
