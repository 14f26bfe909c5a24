"""`firn.log.producer` with a real broker and a real server, without Spark: transactions, and the page's program."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Consumer

import firn
import firn.log
from firn.embedded.kafka import EmbeddedKafka
from firn.errors import Refused
from tests.docs.blocks import ADDRESS, DOCS, blocks
from tests.integration.streams.topics import Topic, create_topic
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.timeout(300)
COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "status", "type": "string"},
    {"name": "amount", "type": "decimal(9,2)"},
]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("producers") / "data") as running:
        running.post("catalogs/lake/namespaces", {"name": "shop"})
        yield running


@pytest.fixture
def client(process: ServerProcess) -> Iterator[firn.Client]:
    with firn.connect(process.url) as connected:
        yield connected


def create(client: firn.Client, topic: Topic, name: str, **properties: str) -> None:
    log = {"firn.log.topic": topic.name, "firn.log.brokers": topic.brokers, "firn.log.format": "firn-json"}
    client.tables.create(name, COLUMNS, primary_key=["id"], properties={**log, **properties})


def drained(client: firn.Client, table: str) -> list[Row]:
    client.tables[table].drain()
    rows: list[Row] = client.scan(table).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def test_the_program_of_the_page(client: firn.Client, kafka: EmbeddedKafka) -> None:
    create(client, create_topic(kafka.brokers, 3, name="page-orders"), "shop.orders")
    page = (DOCS / "streams.md").read_text(encoding="utf-8")
    program = next(block.text for block in blocks(page) if "firn.log.producer(" in block.text)
    assert ADDRESS in program
    for _ in range(2):  # a program that starts again fences its own older copy
        exec(compile(program.replace(ADDRESS, client.url), "docs/streams.md", "exec"), {})
    assert drained(client, "shop.orders") == [
        {"id": 1, "status": "paid", "amount": Decimal("10.50")},
        {"id": 2, "status": "new", "amount": Decimal("7.25")},
    ]


@pytest.mark.parametrize("format", ["firn-json", "upsert-json"])
def test_a_transaction_that_fails_leaves_nothing(client: firn.Client, kafka: EmbeddedKafka, format: str) -> None:
    topic = create_topic(kafka.brokers, 2)
    table = f"shop.failed_{format.replace('-', '_')}"
    create(client, topic, table, **{"firn.log.format": format})
    producer = firn.log.producer(client, table, transactional_id=topic.name)
    with producer.transaction():
        producer.upsert({"id": 1, "status": "kept"})
        producer.upsert({"id": 2, "status": "deleted"})
        producer.delete({"id": 2})

    def fail() -> None:
        with producer.transaction():
            producer.upsert({"id": 1, "status": "lost"})
            producer.upsert({"id": 3, "status": "lost"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with producer.transaction():
        producer.upsert({"id": 4, "status": "after"})
    statuses = {row["id"]: row["status"] for row in drained(client, table)}
    assert statuses == {1: "kept", 4: "after"}


def test_a_newer_copy_ends_the_older_one(client: firn.Client, kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka.brokers, 1)
    create(client, topic, "shop.copies")
    older = firn.log.producer(client, "shop.copies", transactional_id=topic.name)

    def write_at_once() -> None:
        with older.transaction():
            older.upsert({"id": 1, "status": "older"})
            newer = firn.log.producer(client, "shop.copies", transactional_id=topic.name)
            with newer.transaction():
                newer.upsert({"id": 1, "status": "newer"})

    with pytest.raises(Refused, match="the producer has ended"):
        write_at_once()
    assert [row["status"] for row in drained(client, "shop.copies")] == ["newer"]


def test_a_copy_of_a_topic_goes_on_behind_its_last_transaction(client: firn.Client, kafka: EmbeddedKafka) -> None:
    source, topic = create_topic(kafka.brokers, 1), create_topic(kafka.brokers, 1)
    create(client, topic, "shop.copied")
    source.send((number, {"id": number}) for number in range(3))

    def copy(most: int, *, dies: bool = False) -> None:
        options = {"bootstrap.servers": kafka.brokers, "group.id": topic.name, "enable.auto.commit": False}
        consumer = Consumer(options | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        consumer.subscribe([source.name])
        producer = firn.log.producer(client, "shop.copied", transactional_id=topic.name)
        try:
            with producer.transaction(consumer):
                for message in consumer.consume(most, 20):
                    producer.upsert({"id": message.offset(), "status": f"offset {message.offset()}"})
                if dies:
                    raise KeyboardInterrupt
        finally:
            consumer.close()

    copy(2)
    with pytest.raises(KeyboardInterrupt):
        copy(1, dies=True)
    copy(1)
    assert [row["id"] for row in drained(client, "shop.copied")] == [0, 1, 2]
    log = client.tables["shop.copied"].log.show()
    assert log.lag == 0
    assert client.scan("shop.copied.change").to_arrow().num_rows == 3, "no record came twice"


def test_without_transactions_the_end_of_the_block_waits_for_kafka(client: firn.Client, kafka: EmbeddedKafka) -> None:
    create(client, create_topic(kafka.brokers, 2), "shop.plain")
    with firn.log.producer(client, "shop.plain", settings={"message.max.bytes": 4_000}) as producer:
        for number in range(500):
            producer.upsert({"id": number, "status": "x"})
        with pytest.raises(Refused, match="larger than Kafka's client sends"):
            producer.upsert({"id": 1, "status": "x" * 5_000})
    assert client.tables["shop.plain"].log.show().lag == 500
    with pytest.raises(Refused, match="is set by Firn"):
        firn.log.producer(client, "shop.plain", settings={"enable.idempotence": False})
    create(client, create_topic(kafka.brokers, 1), "shop.envelopes", **{"firn.log.format": "debezium-json"})
    with pytest.raises(Refused, match="writes no records of the format debezium-json"):
        firn.log.producer(client, "shop.envelopes")
