"""Iceberg's sink for Kafka Connect with the properties of docs/connecting.md: both kinds of tables, a killed worker."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

import firn
from firn.embedded.kafka import EmbeddedKafka
from firn.embedded.pyspark_jars import pyspark_jar
from tests.docs.blocks import ADDRESS, DOCS, blocks
from tests.integration.streams.connect import HADOOP, SINK, WORKER, ConnectWorker
from tests.integration.streams.topics import Topic, create_topic
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import ServerProcess, server_process, wait_for_images

pytestmark = pytest.mark.timeout(900)
SECONDS = 240.0
SINK_JAR = "iceberg-kafka-connect"
NAMES = ("id", "amount", "version")
COLUMNS = [{"name": name, "type": "long"} for name in NAMES]
_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without a Spark beside it: these tests read with Arrow."""
    with server_process(tmp_path_factory.mktemp("connect") / "data") as running:
        wait_for_images(running.http)
        firn.connect(running.url).namespaces.create("db")
        yield running


def read_page() -> list[dict[str, str]]:
    """The properties of the worker and of the connector on the page."""
    page = (DOCS / "connecting.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"^## Kafka Connect\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    texts = [block.text for block in blocks(part) if block.language == "properties"]
    return [dict(line.split("=", 1) for line in text.splitlines()) for text in texts[:2]]


@dataclass
class Connector:
    """A connector that writes one topic into a keyed and a plain table."""

    client: firn.client.Client
    topic: Topic
    worker: ConnectWorker
    keyed: str
    plain: str
    sent: list[tuple[int, int, int]] = field(default_factory=list)

    def send(self, *rows: tuple[int, int, int]) -> None:
        self.topic.send((row[0], dict(zip(NAMES, row, strict=True))) for row in rows)
        self.sent += rows

    def wait_for_rows(self) -> None:
        """Until both tables have got as many rows as were sent."""
        give_up = time.monotonic() + SECONDS
        while any(len(self._read(table)) < len(self.sent) for table in (self.plain, f"{self.keyed}.change")):
            assert self.worker.state() == "RUNNING", self.worker.read_log()
            assert time.monotonic() < give_up, self.worker.read_log()
            time.sleep(1)

    def check(self) -> None:
        """Each record is in the plain table and in the change store once, and the keyed table has the newest."""
        newest = {row[0]: row for row in sorted(self.sent, key=lambda row: row[2])}
        for table in (self.plain, f"{self.keyed}.change"):
            assert self._read(table) == sorted(self.sent)
        assert self._read(self.keyed) == sorted(newest.values())

    def _read(self, table: str) -> list[tuple[int, int, int]]:
        rows = self.client.scan(table, columns=list(NAMES)).to_arrow().to_pylist()
        return sorted((row["id"], row["amount"], row["version"]) for row in rows)


@contextmanager
def connector(
    server: ServerProcess, kafka: EmbeddedKafka, directory: Path, url: str, *, version: str | None = "version"
) -> Iterator[Connector]:
    """A connector by the page's properties; its worker is not started."""
    number = next(_numbers)
    topic, control = create_topic(kafka.brokers), create_topic(kafka.brokers, 1)
    keyed, plain = f"db.connect_orders{number}", f"db.connect_log{number}"
    client = firn.connect(server.url)
    client.tables.create(keyed, COLUMNS, primary_key=["id"], sequence_field=version)
    client.tables.create(plain, COLUMNS)
    worker, properties = read_page()
    worker |= {
        "bootstrap.servers": kafka.brokers,
        "offset.flush.interval.ms": "1000",  # a task sleeps so long while no records come
        "plugin.discovery": "service_load",  # starts faster
    }
    properties |= {
        "name": topic.name,
        "topics": topic.name,
        "iceberg.tables": f"{keyed},{plain}",
        "iceberg.control.topic": control.name,
        "iceberg.control.commit.interval-ms": "2000",
        "iceberg.catalog.uri": properties["iceberg.catalog.uri"].replace(ADDRESS, url),
    }
    running = Connector(client, topic, ConnectWorker(directory, worker, properties), keyed, plain)
    with ExitStack() as undo:
        undo.callback(running.worker.stop)
        yield running


def test_the_page_names_the_versions_that_are_tried() -> None:
    page = (DOCS / "connecting.md").read_text(encoding="utf-8")
    kafka, iceberg = (find_version(jars, name) for jars, name in ((WORKER, "connect-runtime"), (SINK, SINK_JAR)))
    assert f"| [Kafka Connect](#kafka-connect) | run by the tests | {kafka}, Iceberg {iceberg} |" in page
    for pattern in HADOOP:
        assert f"`org.apache.hadoop:{pyspark_jar(pattern).stem.replace('-3', ':3')}`" in page


def find_version(jars: Path, name: str) -> str:
    """The version of a jar in a list."""
    (version,) = re.findall(rf'name="{name}" rev="(\S+)"', jars.read_text(encoding="utf-8"))
    return str(version)


def test_a_topic_is_in_both_tables_once_after_the_worker_was_killed(
    server: ServerProcess, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    killing, killed = threading.Event(), threading.Event()
    kills: list[Callable[[], None]] = []

    def kill_at_its_commit(method: str, path: str) -> bool:
        """Whether the worker dies: the server has applied its commit to the keyed table, and nobody gets the answer."""
        if method != "POST" or "connect_orders" not in path or path.endswith("metrics") or not killing.is_set():
            return False
        kills[0]()
        killing.clear()
        killed.set()
        return True

    with (
        lossy_proxy(server.url, kill_at_its_commit) as proxy,
        connector(server, kafka, tmp_path, proxy.url) as running,
    ):
        kills.append(running.worker.kill)
        running.worker.start()
        running.send(*((key, 1, 1) for key in range(20)))
        running.wait_for_rows()
        killing.set()
        running.send(*((key, version, version) for version in (2, 3) for key in range(10)))
        assert killed.wait(SECONDS), running.worker.read_log()
        running.send(*((key, 4, 4) for key in range(5)))
        running.worker.start()
        running.wait_for_rows()
        running.check()


def test_without_a_sequence_field_a_key_that_comes_twice_fails_the_task(
    server: ServerProcess, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with connector(server, kafka, tmp_path, server.url, version=None) as running:
        running.worker.start()
        running.send((1, 1, 1), (1, 2, 2))
        give_up = time.monotonic() + SECONDS
        while running.worker.state() != "FAILED":
            assert time.monotonic() < give_up, running.worker.read_log()
            time.sleep(1)
        assert "1 keys appear more than once in the rows, such as id=1" in running.worker.log.read_text(
            encoding="utf-8"
        )
        assert running._read(running.keyed) == []
