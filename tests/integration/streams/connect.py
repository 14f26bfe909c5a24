"""Kafka Connect with Iceberg's sink: a standalone worker in a JVM of its own.

The sink's offsets are in Kafka and in its tables, so a worker that is killed loses nothing by being standalone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from firn.embedded.jars import fetch_jar_set
from firn.embedded.kafka import JARS
from firn.embedded.ports import LOOPBACK, free_port
from firn.embedded.process import GuardedProcess, read_last_lines, require_java
from firn.embedded.pyspark_jars import pyspark_jar

HERE = Path(__file__).parent
WORKER, SINK = HERE / "connect-worker.xml", HERE / "iceberg-sink.xml"
HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
"""The sink needs Hadoop's classes, whatever its catalog; PySpark brings them."""
START_SECONDS = 180


@dataclass
class ConnectWorker:
    """A worker that runs one connector; `directory` keeps its settings, its plugins and its log."""

    directory: Path
    worker: Mapping[str, str]
    connector: Mapping[str, str]
    _process: GuardedProcess | None = None
    _port: int = field(default_factory=free_port)

    @property
    def log(self) -> Path:
        return self.directory / "connect.log"

    def read_log(self) -> str:
        """The end of the log, for the message of a test that fails."""
        return read_last_lines(self.log, 60)

    def start(self) -> None:
        """Start it, and return once its connector has a running task."""
        own = {
            "plugin.path": str(self._link_plugins()),
            "listeners": f"http://{LOOPBACK}:{self._port}",
            "offset.storage.file.filename": str(self.directory / "connect.offsets"),
        }
        files = {"worker.properties": {**self.worker, **own}, "connector.properties": self.connector}
        for name, settings in files.items():
            lines = "".join(f"{key}={value}\n" for key, value in settings.items())
            (self.directory / name).write_text(lines, encoding="ascii")
        classes = ":".join(f"{fetch_jar_set(jars)}/*" for jars in (WORKER, JARS))
        command = [
            *(str(require_java().path), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
            *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.log.org.apache.iceberg=info"),
            *("-cp", classes, "org.apache.kafka.connect.cli.ConnectStandalone", *files),
        ]
        self._process = GuardedProcess(command, log=self.log, cwd=self.directory)
        give_up = time.monotonic() + START_SECONDS
        while (state := self.state()) != "RUNNING":
            assert state != "FAILED", self.read_log()
            assert self._process.exit_status is None, self.read_log()
            assert time.monotonic() < give_up, self.read_log()
            time.sleep(0.5)

    def state(self) -> str:
        """The state of the connector's task; empty while the worker does not answer."""
        try:
            answer = httpx.get(f"http://{LOOPBACK}:{self._port}/connectors/{self.connector['name']}/status", timeout=5)
        except httpx.TransportError:
            return ""
        tasks = answer.json().get("tasks") if answer.is_success else None
        return str(tasks[0]["state"]) if tasks else ""

    def kill(self) -> None:
        """Kill it at once. The kernel kills the JVM with its guard."""
        assert self._process is not None
        os.kill(self._process._guard.pid, signal.SIGKILL)
        self._process.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _link_plugins(self) -> Path:
        """The directory of plugins, in which the sink with all its jars is one."""
        plugins = self.directory / "plugins"
        sink = plugins / "iceberg"
        sink.mkdir(parents=True, exist_ok=True)
        for jar in (*fetch_jar_set(SINK).glob("*.jar"), *(pyspark_jar(pattern) for pattern in HADOOP)):
            link = sink / jar.name
            if not link.is_symlink():
                link.symlink_to(jar)
        return plugins
