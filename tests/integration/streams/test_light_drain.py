"""What only the light engine does: it bounds batches by bytes, and leaves to Spark what it cannot decode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

import firn
from firn.drains.engine import Engine
from firn.drains.errors import NeedsSpark
from tests.integration.streams.engines import open_drain, run_drain
from tests.integration.streams.test_drain import change, changes, create, merged
from tests.integration.streams.topics import SECONDS, Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]


def test_a_batch_ends_where_memory_does_and_what_only_spark_reads_is_left_to_it(
    server: RunningServer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    table = create(server, topic, "light")
    topic.send([change(key % 7, key) for key in range(70)], commit=True)
    topic.send([change(key % 7, -1) for key in range(70)], commit=False)  # aborted: offsets without records
    bounded = open_drain(server, "lake.db.light", Engine.LIGHT)
    bounded.most_bytes = 500
    done = bounded.run()
    assert (done.commits > 3, len(changes(server, "light")), table.log.show().lag) == (True, 70, 0)
    assert merged(server, "light") == {key: 63 + key for key in range(7)}

    producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
    for value in (b'{"id": 8, "n": 8}', b"{'id': 9, 'n': 9}", b'{"id": 10, "n": "x"}'):
        producer.produce(topic.name, value=value, partition=0)
    producer.produce(topic.name, value=b'{"id": 11, "n": 11, "x": "' + b"y" * 900_000 + b'"}', partition=1)
    assert producer.flush(SECONDS) == 0
    client = firn.connect(server.url)
    with pytest.raises(NeedsSpark, match="only Spark may read") as needs:
        client.tables["db.light"].drain()
    assert not needs.value.is_of_table
    assert len(changes(server, "light")) == 70, "neither the rows nor the bad record of the batch are written"
    assert table.log.quarantine.list().total == 0
    run_drain(server, "lake.db.light", Engine.SPARK)
    assert {8, 9, 11} < merged(server, "light").keys()
    assert client.tables["db.light"].drain().commits == 0
