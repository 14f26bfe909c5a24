"""A real Kafka broker for one machine, from Kafka's own jars.

    with EmbeddedKafka(Path("firn-data/kafka"), port=9092) as kafka:
        kafka.brokers          # 127.0.0.1:9092

The broker is its own controller (KRaft), needs no password and listens only on 127.0.0.1. Its topics are in its data
directory and survive restarts.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from firn.embedded.errors import StartFailed
from firn.embedded.jars import fetch_jar_set
from firn.embedded.ports import KAFKA_PORT, LOOPBACK, free_port
from firn.embedded.process import make_early_end_error, open_private_log
from firn.embedded.service import EmbeddedService

JARS = Path(__file__).with_name("kafka.xml")
SETTINGS = "server.properties"
ANSWER_SECONDS = 5.0
FORMAT_SECONDS = 60.0
CLUSTER_ID = "firnfirnfirnfirnfirnfQ"
"""A UUID in Kafka's base 64. Each broker is a cluster of its own, so all may have the same."""
METADATA_REQUEST = struct.pack(">hhihi", 3, 1, 1, -1, 0)
"""Metadata, version 1, correlation id 1, no client id, no topics: asks for the brokers only."""


class EmbeddedKafka(EmbeddedService):
    """One broker. The first start fetches Kafka's jars, 44 MB."""

    name = owner = "Kafka"
    data_owner = "Kafka's data"
    log_name = "kafka.log"

    def __init__(
        self,
        data_dir: Path,
        port: int = KAFKA_PORT,
        *,
        heap_mib: int = 512,
        start_seconds: float = 90,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`port` 0 chooses a free port; `settings` override the broker's. Nothing happens before start()."""
        super().__init__(data_dir, port, heap_mib=heap_mib, start_seconds=start_seconds)
        self._settings = dict(settings or {})
        self._jars = Path()

    @property
    def brokers(self) -> str:
        """The value for `bootstrap.servers`."""
        return f"{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._jars = fetch_jar_set(JARS)

    def _command(self, java: Path) -> list[str]:
        self._write_settings()
        command = self._java_command(java, self._jars)
        self._format(command)
        return [*command, "kafka.Kafka", SETTINGS]

    def _does_answer(self) -> bool:
        return does_answer(self.port)

    def _java_command(self, java: Path, jars: Path) -> list[str]:
        return [
            str(java),
            f"-Xmx{self._heap_mib}m",
            "-Djava.net.preferIPv4Stack=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
            "-cp",
            f"{jars}/*",
        ]

    def _write_settings(self) -> None:
        controller = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "logs",  # in its working directory: Kafka would split a path at commas
            # A single broker has nobody to replicate to, and few clients: few partitions and threads are enough.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": "16777216",  # the default takes a quarter of the heap
            **self._settings,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.data_dir / SETTINGS).write_text(lines, encoding="ascii")

    def _format(self, java_command: list[str]) -> None:
        """Let Kafka prepare an empty directory; raise StartFailed with its message if it cannot."""
        if (self.data_dir / "logs" / "meta.properties").is_file():
            return
        command = [*java_command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", SETTINGS]
        with open(open_private_log(self.log), "ab") as output:  # noqa: PTH123 -- it is a descriptor
            try:
                status = subprocess.run(
                    command, stdout=output, stderr=output, cwd=self.data_dir, check=False, timeout=FORMAT_SECONDS
                ).returncode
            except subprocess.TimeoutExpired:
                raise StartFailed(f"Kafka did not format {self.data_dir} within {FORMAT_SECONDS:.0f} s.") from None
        if status != 0:
            raise make_early_end_error("Kafka's format of its directory", status, self.log)


def does_answer(port: int) -> bool:
    """Whether a broker on this machine serves clients. It listens before it has joined its cluster."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(METADATA_REQUEST)) + METADATA_REQUEST)
            answer = _read(connection, struct.unpack(">i", _read(connection, 4))[0])
    except OSError:
        return False
    brokers: int = struct.unpack(">i", answer[4:8])[0]  # behind the correlation id
    return brokers > 0


def _read(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)
