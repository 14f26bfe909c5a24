"""The server's client of Kafka on a real broker: the tests that its fake passes, and a broker that keeps silent."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from catalog.errors import Forbidden, Unavailable
from catalog.kafka.cluster import Offsets, Topic
from catalog.kafka.connection import Connection
from firn.embedded.kafka import EmbeddedKafka
from firn.protocol.connections import Mechanism, Security
from server.kafka.clusters import ConfluentClusters
from tests.integration.streams.sign_in import SignIn
from tests.integration.streams.topics import SECONDS, create_topic
from tests.server.kafka.behaviour import ClusterBehaviour, EndTransaction

pytestmark = pytest.mark.timeout(300)
_NUMBERS = count()


@dataclass
class RealCluster:
    clusters: ConfluentClusters
    connection: Connection

    @property
    def _brokers(self) -> dict[str, str]:
        return {"bootstrap.servers": ",".join(self.connection.brokers)}

    def create(self, name: str, partitions: int) -> str:
        return create_topic(self._brokers["bootstrap.servers"], partitions, name=f"behaviour-{name}").name

    def recreate(self, name: str, partitions: int) -> None:
        admin = AdminClient(self._brokers)
        admin.delete_topics([name])[name].result(SECONDS)
        create_topic(self._brokers["bootstrap.servers"], partitions, name=name)

    def send(self, name: str, *values: bytes, partition: int = 0) -> None:
        _write(Producer(self._brokers), name, values, partition)

    def begin(self, name: str, *values: bytes, partition: int = 0) -> EndTransaction:
        producer = Producer(self._brokers | {"transactional.id": f"{name}-{next(_NUMBERS)}"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        _write(producer, name, values, partition)

        def end(*, commit: bool) -> None:
            (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)

        return end

    def drop_before(self, name: str, offset: int) -> None:
        admin = AdminClient(self._brokers)
        for deleted in admin.delete_records([TopicPartition(name, 0, offset)]).values():
            deleted.result(SECONDS)

    def add_partitions(self, name: str, total: int) -> None:
        admin = AdminClient(self._brokers)
        admin.create_partitions([NewPartitions(name, total)])[name].result(SECONDS)


def _write(producer: Producer, name: str, values: Iterable[bytes], partition: int) -> None:
    for value in values:
        producer.produce(name, value=value, partition=partition)
    assert producer.flush(SECONDS) == 0


class TestConfluentClusters(ClusterBehaviour):
    @pytest.fixture
    def cluster(self, kafka: EmbeddedKafka) -> RealCluster:
        return RealCluster(ConfluentClusters(), Connection(name="c", brokers=(kafka.brokers,)))


def test_a_broker_takes_the_password_of_a_connection_and_refuses_another_one(
    kafka: EmbeddedKafka, sign_in: SignIn
) -> None:
    topic = create_topic(kafka.brokers, 1)
    connection = Connection(
        name="signed",
        brokers=(sign_in.brokers,),
        security=Security.SASL_PLAINTEXT,
        mechanism=Mechanism(sign_in.mechanism),
        username=sign_in.user,
    )
    clusters = ConfluentClusters(seconds=10)
    assert clusters.describe(connection, sign_in.password, topic.name).partitions == {0: Offsets(0, 0)}
    with pytest.raises(Forbidden, match="refuses the connection"):
        clusters.describe(connection, "wrong", topic.name)


def test_a_broker_that_keeps_silent_is_an_error() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # it takes connections, and never answers
        port = silent.getsockname()[1]
        connection = Connection(name="silent", brokers=(f"127.0.0.1:{port}",))
        with pytest.raises(Unavailable, match=f"Kafka at 127.0.0.1:{port} does not answer"):
            ConfluentClusters(seconds=1).describe(connection, None, "orders")
        topic = Topic(name="orders", id="a", partitions={0: Offsets(0, 5)})
        with pytest.raises(Unavailable, match="does not answer"):  # no records would mean that the topic has none
            ConfluentClusters(seconds=1).read_newest(connection, None, topic, 10)
