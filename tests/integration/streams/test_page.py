"""The Spark program of docs/streams.md, run as it stands there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from firn.embedded.kafka import EmbeddedKafka
from tests.docs.blocks import ADDRESS, DOCS, blocks
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BROKER = "127.0.0.1:9092"


def test_the_program_of_the_page_copies_a_topic_once(
    server: RunningServer, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    page = (DOCS / "streams.md").read_text(encoding="utf-8")
    program = next(block.text for block in blocks(page) if "write_stream" in block.text)
    for old, new in ((ADDRESS, server.url), (BROKER, kafka.brokers), ("/tmp/checkpoints", str(tmp_path))):
        assert old in program
        program = program.replace(old, new)
    admin = AdminClient({"bootstrap.servers": kafka.brokers})
    admin.create_topics([NewTopic("orders", num_partitions=2, replication_factor=1)])["orders"].result(30)
    producer = Producer({"bootstrap.servers": kafka.brokers, "enable.idempotence": True})
    for number in range(20):
        producer.produce("orders", key=str(number % 5), value=json.dumps({"id": number % 5, "amount": number}))
    assert producer.flush(30) == 0
    # PySpark's active session, which the program takes, is the last that made a frame of Python's data.
    server.spark.createDataFrame([], "nothing int")
    names: dict[str, Any] = {}
    exec(compile(program, "docs/streams.md", "exec"), names)
    assert server.rows("SELECT id, amount FROM lake.shop.orders") == [(key, 15 + key) for key in range(5)]
    assert server.rows("SELECT count(*) FROM lake.shop.orders.change") == [(20,)]
