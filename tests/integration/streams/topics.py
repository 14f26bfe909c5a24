"""Topics of a test: created, filled and read without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

_NUMBERS = count()
SECONDS = 30.0
STABLE_SECONDS = 10.0


@dataclass(frozen=True)
class Topic:
    """A topic of JSON records. A record with the key k is in the partition k modulo the number of partitions."""

    brokers: str
    name: str
    partitions: int

    def send(self, records: Iterable[tuple[int, Any]], *, commit: bool | None = None) -> None:
        """Write records (key, value), a value of None as a tombstone; return once the broker has them.

        With `commit`, in one transaction, which is committed or aborted.
        """
        # A retry without idempotence could put an older record behind a newer one.
        settings = {"bootstrap.servers": self.brokers, "linger.ms": 5, "enable.idempotence": True}
        producer = Producer(settings | ({} if commit is None else {"transactional.id": f"{self.name}-writer"}))
        if commit is not None:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
        for key, value in records:
            text = None if value is None else json.dumps(value)
            producer.produce(self.name, key=str(key), value=text, partition=key % self.partitions)
        assert producer.flush(SECONDS) == 0
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
            self._wait_until_stable()

    def _wait_until_stable(self) -> None:
        """Wait until readers see the end of the transaction: the broker marks the partitions after its answer.

        Another transaction that is open keeps them from that, so the wait is not for ever.
        """
        admin = AdminClient({"bootstrap.servers": self.brokers})
        latest = {TopicPartition(self.name, number): OffsetSpec.latest() for number in range(self.partitions)}
        give_up = time.monotonic() + STABLE_SECONDS

        def list_ends(level: IsolationLevel) -> list[int]:
            offsets = admin.list_offsets(latest, isolation_level=level)
            return [future.result(SECONDS).offset for future in offsets.values()]

        while list_ends(IsolationLevel.READ_COMMITTED) != list_ends(IsolationLevel.READ_UNCOMMITTED):
            if time.monotonic() > give_up:
                return
            time.sleep(0.05)

    def ends(self) -> dict[int, int]:
        """The offset behind the last record of each partition."""
        consumer = Consumer({"bootstrap.servers": self.brokers, "group.id": "tests"})
        try:
            marks = {
                number: consumer.get_watermark_offsets(TopicPartition(self.name, number), SECONDS)
                for number in range(self.partitions)
            }
            return {number: mark[1] for number, mark in marks.items()}
        finally:
            consumer.close()


def create_topic(brokers: str, partitions: int = 2, *, name: str | None = None, **settings: str) -> Topic:
    """An empty topic, with a name of its own if the test gives none.

    The controller answers that it has created the topic a little before the broker knows it.
    """
    topic = Topic(brokers, name or f"topic{next(_NUMBERS)}", partitions)
    config = {name.replace("_", "."): value for name, value in settings.items()}
    new = NewTopic(topic.name, num_partitions=partitions, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": brokers})  # it must live until the result is there
    admin.create_topics([new])[topic.name].result(SECONDS)
    give_up = time.monotonic() + SECONDS
    while not _is_known(admin, topic):
        assert time.monotonic() < give_up, f"the broker never came to know {topic.name}"
        time.sleep(0.01)
    return topic


def _is_known(admin: AdminClient, topic: Topic) -> bool:
    try:
        described = admin.describe_topics(TopicCollection([topic.name]))[topic.name].result(SECONDS)
    except KafkaException:
        return False
    return len(described.partitions) == topic.partitions and all(part.leader for part in described.partitions)
