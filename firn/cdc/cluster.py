"""The Kafka cluster of a configuration: its topics, and samples of their records, without Java."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from firn.client import Client
from firn.errors import FirnError, NotFound, Unavailable
from firn.logs import PASSWORD_VARIABLE, LogBatch
from firn.protocol.answers.connections import ConnectionOut
from firn.protocol.cdc.routing import CdcConfig

try:
    import confluent_kafka as kafka
    from confluent_kafka import admin
except ImportError:  # an extra: see open_cluster
    HAS_CLIENT = False
else:
    HAS_CLIENT = True

SECONDS = 10.0
_GROUP = "firn-cdc"
"""The consumer group that the client demands. No offsets are committed to it."""
Bounds = dict[int, tuple[int, int]]
"""The first and the last stable offset of each partition."""


@dataclass(frozen=True)
class CdcCluster:
    """A cluster. Each call opens a client, because calls are rare."""

    options: dict[str, Any] = field(repr=False)
    seconds: float = SECONDS

    def list_topics(self, config: CdcConfig) -> list[str]:
        """The topics of a configuration, by name."""
        with self._calling() as client:
            topics = client.list_topics(timeout=self.seconds).topics
        return sorted(name for name in topics if config.takes_topic(name))

    def find_bounds(self, topic: str) -> Bounds:
        """The offsets of a topic's committed records."""
        with self._calling() as client:
            described = self._wait(client.describe_topics(kafka.TopicCollection([topic]))[topic])
            numbers = sorted(partition.id for partition in described.partitions)
            first = self._list_offsets(client, topic, numbers, admin.OffsetSpec.earliest())
            return {
                number: (first[number], offset)
                for number, offset in self._list_offsets(client, topic, numbers, admin.OffsetSpec.latest()).items()
            }

    def read_sample(self, topic: str, most: int) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of at most so many of the oldest and of the newest records."""
        bounds = self.find_bounds(topic)
        filled = {number: pair for number, pair in bounds.items() if pair[0] < pair[1]}
        share = max(most // (2 * max(len(filled), 1)), 1)
        records = []
        for batch in _choose_ranges(topic, filled, share):
            with self._calling():
                records += self._read(batch)
        return records

    def _read(self, batch: LogBatch) -> list[tuple[bytes | None, bytes | None]]:
        settings = {"group.id": _GROUP, "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = kafka.Consumer({**self.options, **settings, "enable.partition.eof": True})
        left = {number for number, end in batch.end.items() if batch.start[number] < end}
        records: list[tuple[bytes | None, bytes | None]] = []
        with contextlib.closing(consumer):
            consumer.assign([kafka.TopicPartition(batch.topic, number, batch.start[number]) for number in left])
            while left:
                message = consumer.poll(self.seconds)
                if message is None:
                    raise TimeoutError
                error, number = message.error(), message.partition()
                if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 -- its name
                    raise kafka.KafkaException(error)
                if error is not None or message.offset() >= batch.end[number]:
                    left.discard(number)
                else:
                    records.append((message.key(), message.value()))
                    if message.offset() + 1 >= batch.end[number]:
                        left.discard(number)
        return records

    def _list_offsets(
        self, client: admin.AdminClient, topic: str, numbers: Sequence[int], which: admin.OffsetSpec
    ) -> dict[int, int]:
        specs = {kafka.TopicPartition(topic, number): which for number in numbers}
        level = kafka.IsolationLevel.READ_COMMITTED
        answers = client.list_offsets(specs, isolation_level=level, request_timeout=self.seconds)
        return {partition.partition: self._wait(answer).offset for partition, answer in answers.items()}

    def _wait(self, answer: Future[Any]) -> Any:
        return answer.result(self.seconds)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[admin.AdminClient]:
        """Open a client, and raise its errors as those of Firn."""
        where = f"Kafka at {self.options['bootstrap.servers']}"
        try:
            yield admin.AdminClient(self.options)
        except TimeoutError as error:
            raise Unavailable(f"{where} does not answer", hint="check the brokers and the password") from error
        except kafka.KafkaException as error:
            problem = error.args[0]
            if problem.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NotFound(f"{where} has no such topic") from error
            raise Unavailable(f"{where} does not answer: {problem.str()}") from error


def open_cluster(config: CdcConfig, client: Client) -> CdcCluster:
    """The cluster of a configuration. FirnError without confluent-kafka.

    A connection is the server's; its password comes from $FIRN_KAFKA_PASSWORD.
    """
    if not HAS_CLIENT:
        raise FirnError("this program has no client of Kafka", hint="pip install 'firn[kafka]'")
    base = {"client.id": _GROUP, "log_level": 0, "socket.timeout.ms": int(SECONDS * 1000)}
    if config.connection is None:
        return CdcCluster({**base, "bootstrap.servers": ",".join(config.brokers)})
    connection = client.connections.get(config.connection)
    return CdcCluster({**base, **_build_options(connection, os.environ.get(PASSWORD_VARIABLE))})


def _build_options(connection: ConnectionOut, password: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(connection.brokers),
        "security.protocol": str(connection.security).upper().replace("-", "_"),
    }
    if connection.mechanism is not None:
        options |= {
            "sasl.mechanism": str(connection.mechanism),
            "sasl.username": connection.username,
            "sasl.password": password or "",
        }
    return options if connection.ca is None else {**options, "ssl.ca.pem": connection.ca}


def _choose_ranges(topic: str, bounds: Bounds, share: int) -> Iterator[LogBatch]:
    """The oldest records of each partition, and the newest ones behind them."""
    if not bounds:
        return
    first = {number: start for number, (start, _) in bounds.items()}
    middle = {number: min(start + share, end) for number, (start, end) in bounds.items()}
    last = {number: max(end - share, middle[number]) for number, (_, end) in bounds.items()}
    ends = {number: end for number, (_, end) in bounds.items()}
    yield LogBatch(topic=topic, start=first, end=middle)
    yield LogBatch(topic=topic, start=last, end=ends)
