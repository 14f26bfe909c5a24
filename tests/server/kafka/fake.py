"""Kafka clusters in memory: topics with transactions, as the server's services see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.errors import Forbidden, NotFound, Unavailable
from catalog.kafka.cluster import ClusterSummary, KafkaRecord, Offsets, Topic
from catalog.kafka.connection import Connection
from tests.factories import NOW


@dataclass
class FakeClusters:
    """See catalog.ports.kafka.KafkaClusters. Brokers that are not in `up` do not answer."""

    up: frozenset[str] = frozenset({"kafka:9092"})
    passwords: Mapping[str, str] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    records: dict[str, list[KafkaRecord]] = field(default_factory=dict)

    def create(self, name: str, partitions: int = 1, *, id: str | None = None, **more: int | bool) -> None:
        """Create a topic, or create it again under another id."""
        offsets = {number: Offsets(0, 0) for number in range(partitions)}
        self.topics[name] = Topic(name=name, id=id or f"id of {name}", partitions=offsets, **more)  # type: ignore[arg-type]
        self.records[name] = []

    def produce(self, name: str, *values: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
        """Append committed records to a partition."""
        topic = self.topics[name]
        start = topic.partitions[partition]
        for offset, (key, value) in enumerate(values, start.stable):
            record = KafkaRecord(partition=partition, offset=offset, timestamp=NOW, key=key, value=value)
            self.records[name].append(record)
        self.set_offsets(name, partition, start.earliest, start.stable + len(values))

    def set_offsets(self, name: str, partition: int, earliest: int, stable: int) -> None:
        """Move the bounds of a partition; a new number adds a partition."""
        topic = self.topics[name]
        self.topics[name] = replace(topic, partitions={**topic.partitions, partition: Offsets(earliest, stable)})

    def summarize(self, connection: Connection, password: str | None) -> ClusterSummary:
        self._sign_in(connection, password)
        return ClusterSummary(cluster_id="fake", brokers=1, topics=len(self.topics))

    def describe(self, connection: Connection, password: str | None, topic: str) -> Topic:
        self._sign_in(connection, password)
        if topic not in self.topics:
            raise NotFound(f"Kafka at {','.join(connection.brokers)} has no such topic")
        return self.topics[topic]

    def read_newest(self, connection: Connection, password: str | None, topic: Topic, most: int) -> list[KafkaRecord]:
        self._sign_in(connection, password)
        kept: Sequence[KafkaRecord] = [
            record
            for record in self.records[topic.name]
            if topic.partitions[record.partition].earliest <= record.offset < topic.partitions[record.partition].stable
        ]
        return sorted(kept, key=lambda record: (record.partition, record.offset))[-most:]

    def _sign_in(self, connection: Connection, password: str | None) -> None:
        where = f"Kafka at {','.join(connection.brokers)}"
        if not self.up & {*connection.brokers}:
            raise Unavailable(f"{where} does not answer: connection refused")
        if connection.username is not None and self.passwords.get(connection.username) != password:
            raise Forbidden(f"{where} refuses the connection: wrong password")
