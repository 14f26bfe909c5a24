"""The embedded broker: it serves clients, keeps topics over a restart, and says why it does not start."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from firn.embedded.directory import lock_directory
from firn.embedded.errors import AlreadyRunning, JavaUnsuitable, PortTaken, StartFailed
from firn.embedded.kafka import EmbeddedKafka
from firn.embedded.ports import is_open
from tests.integration.streams.topics import Topic, create_topic

pytestmark = pytest.mark.timeout(300)


def read_all(topic: Topic, count: int) -> list[object]:
    consumer = Consumer({"bootstrap.servers": topic.brokers, "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic.name, number, 0) for number in range(topic.partitions)])
        messages = consumer.consume(count, timeout=60)
        return sorted(json.loads(message.value() or b"null") for message in messages)
    finally:
        consumer.close()


def test_a_broker_serves_clients_and_keeps_its_topics(tmp_path: Path) -> None:
    data = tmp_path / "a place; with = odd, signs é"
    with EmbeddedKafka(data, port=0, heap_mib=256) as kafka:
        topic = create_topic(kafka.brokers)
        topic.send([(1, 10), (2, 20)], commit=True)
        assert read_all(topic, 2) == [10, 20]
        with (
            pytest.raises(AlreadyRunning, match="Kafka already runs on"),
            lock_directory(data, owner="Kafka", wait_seconds=0),
        ):
            pass
        with socket.socket() as probe:  # another address of this machine: the broker must not listen there
            probe.settimeout(2)
            assert probe.connect_ex(("127.0.0.2", kafka.port)) != 0
    assert not kafka.running
    assert not is_open(kafka.port)

    with EmbeddedKafka(data, port=kafka.port, heap_mib=256) as again:
        assert read_all(topic, 2) == [10, 20]
        assert again._process is not None
        os.kill(again._process._guard.pid, signal.SIGKILL)
        while again.running:
            time.sleep(0.01)
        again.start()
        topic.send([(3, 30)])
        assert read_all(topic, 3) == [10, 20, 30]


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"Kafka cannot listen on port {port}.*choose another port"):
            EmbeddedKafka(tmp_path / "data", port=port).start()


def test_without_java_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnsuitable, match="need Java 17 or 21"):
        EmbeddedKafka(tmp_path / "data").start()
    assert not (tmp_path / "data").exists()


def test_a_setting_that_kafka_refuses_ends_the_start_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"ended with status 1[\s\S]*log\.retention\.ms"):
        EmbeddedKafka(tmp_path / "data", port=0, settings={"log.retention.ms": "x"}).start()
