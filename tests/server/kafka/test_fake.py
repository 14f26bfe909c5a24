"""The fake of Kafka behaves like the real client, see tests/integration/streams/test_clusters.py."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from catalog.kafka.connection import Connection
from tests.server.kafka.behaviour import ClusterBehaviour, EndTransaction
from tests.server.kafka.fake import FakeClusters


@dataclass
class FakeCluster:
    clusters: FakeClusters = field(default_factory=FakeClusters)
    connection: Connection = field(default_factory=lambda: Connection(name="c", brokers=("kafka:9092",)))

    def create(self, name: str, partitions: int) -> str:
        self.clusters.create(name, partitions)
        return name

    def recreate(self, name: str, partitions: int) -> None:
        self.clusters.create(name, partitions, id="another")

    def send(self, name: str, *values: bytes, partition: int = 0) -> None:
        self.clusters.produce(name, *[(None, value) for value in values], partition=partition)

    def begin(self, name: str, *values: bytes, partition: int = 0) -> EndTransaction:
        return self.clusters.begin(name, *[(None, value) for value in values], partition=partition)

    def drop_before(self, name: str, offset: int) -> None:
        self.clusters.drop_before(name, offset)

    def add_partitions(self, name: str, total: int) -> None:
        self.clusters.add_partitions(name, total)


class TestFakeClusters(ClusterBehaviour):
    @pytest.fixture
    def cluster(self) -> FakeCluster:
        return FakeCluster()
