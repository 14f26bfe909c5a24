"""Calls to Kafka clusters by confluent-kafka: offsets, settings and newest records of topics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from catalog.errors import CatalogError, Forbidden, NotFound, Unavailable
from catalog.kafka.cluster import ClusterSummary, KafkaRecord, Offsets, Topic
from catalog.kafka.connection import Connection

try:
    import confluent_kafka as kafka
    from confluent_kafka import admin
except ImportError:  # an extra: see _require
    HAS_CLIENT = False
else:
    HAS_CLIENT = True

SECONDS = 10.0
"""How long the server waits for one answer of a cluster."""
ELECTION_SECONDS = 0.1
_MESSAGE_BYTES = 1_000_000
_QUEUED_KIB = 16_384
"""What the client reads ahead at most, beside one answer of each broker."""
_SAMPLE_SECONDS = 20.0
"""How long the server reads records of a sample, however slowly they come."""
_OF_KAFKA = "__"
_LONG_AGO = datetime.fromtimestamp(0, UTC)
_GROUP = "firn-server"
"""The consumer group that the client demands. The server commits no offsets to it."""


@dataclass(frozen=True)
class ConfluentClusters:
    """See catalog.ports.kafka.KafkaClusters. Each call opens a client, because connections are used rarely."""

    seconds: float = SECONDS

    def summarize(self, connection: Connection, password: str | None) -> ClusterSummary:
        """Ask the cluster for its brokers and topics."""
        with self._calling(connection, password) as client:
            metadata = client.list_topics(timeout=self.seconds)
        return ClusterSummary(
            cluster_id=metadata.cluster_id or None,
            brokers=len(metadata.brokers),
            topics=len(metadata.topics),
        )

    def describe(self, connection: Connection, password: str | None, topic: str) -> Topic:
        """Ask for a topic's partitions, offsets and settings."""
        with self._calling(connection, password) as client:
            described = self._wait(client.describe_topics(kafka.TopicCollection([topic]))[topic])
            partitions = [partition.id for partition in described.partitions]
            earliest, stable = self._list_bounds(client, topic, partitions)
            settings = self._load_settings(client, topic)
        return Topic(
            name=topic,
            id=str(described.topic_id),
            partitions={number: Offsets(earliest[number], stable[number]) for number in sorted(partitions)},
            retention_ms=_read_limit(settings, "retention.ms"),
            retention_bytes=_read_limit(settings, "retention.bytes"),
            is_compacted="compact" in settings.get("cleanup.policy", ""),
        )

    def find_offsets(
        self, connection: Connection, password: str | None, topic: Topic, at: datetime
    ) -> Mapping[int, int]:
        """Ask for the first records since a time. Offsets of open transactions count as the end."""
        since = admin.OffsetSpec.for_timestamp(max(0, int(at.timestamp() * 1000)))
        with self._calling(connection, password) as client:
            offsets = self._list_offsets(client, topic.name, [*topic.partitions], since)
        return {
            number: bounds.stable if offsets[number] < 0 else min(max(offsets[number], bounds.earliest), bounds.stable)
            for number, bounds in topic.partitions.items()
        }

    def read_newest(self, connection: Connection, password: str | None, topic: Topic, most: int) -> list[KafkaRecord]:
        """Read the last records below the last stable offset. Gaps of transactions may leave fewer."""
        starts = [
            kafka.TopicPartition(topic.name, number, max(offsets.earliest, offsets.stable - most))
            for number, offsets in topic.partitions.items()
            if offsets.earliest < offsets.stable
        ]
        if not starts:
            return []
        with self._calling(connection, password), contextlib.closing(_open_consumer(connection, password)) as consumer:
            consumer.assign(starts)
            records = self._read_to_end(consumer, len(starts))
        newest = sorted(records, key=lambda record: record.timestamp or _LONG_AGO)[-most:]
        return sorted(newest, key=lambda record: (record.partition, record.offset))

    def list_topics(self, connection: Connection, password: str | None) -> list[str]:
        """Ask the cluster for the topics that the user sees."""
        with self._calling(connection, password) as client:
            topics = client.list_topics(timeout=self.seconds).topics
        return sorted(name for name in topics if not name.startswith(_OF_KAFKA))

    def read_ends(
        self, connection: Connection, password: str | None, topic: Topic, most: int, most_bytes: int
    ) -> list[KafkaRecord]:
        """Read the oldest and then the newest records. Gaps of transactions may leave fewer."""
        records: list[KafkaRecord] = []
        with self._calling(connection, password):
            for ranges in _choose_ranges(topic, most):
                left = most_bytes - sum(map(_measure, records))
                if ranges and left > 0:
                    with contextlib.closing(_open_consumer(connection, password)) as consumer:
                        consumer.assign(
                            [kafka.TopicPartition(topic.name, number, start) for number, (start, _) in ranges.items()]
                        )
                        ends = {number: end for number, (_, end) in ranges.items()}
                        records += self._read_up_to(consumer, ends, left)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def _read_up_to(self, consumer: kafka.Consumer, ends: dict[int, int], most_bytes: int) -> list[KafkaRecord]:
        """Read up to an offset of each partition, and no more than so many bytes beside the last record."""
        records: list[KafkaRecord] = []
        give_up = time.monotonic() + _SAMPLE_SECONDS
        while ends and most_bytes > 0 and time.monotonic() < give_up:
            message = consumer.poll(self.seconds)
            if message is None:
                raise TimeoutError
            error, number = message.error(), message.partition()
            if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 -- its name
                raise kafka.KafkaException(error)
            assert number is not None  # a message and the end of a partition name it
            if error is not None:
                ends.pop(number, None)
                continue
            record = _to_record(message)
            if record.offset < ends.get(number, 0):
                records.append(record)
                most_bytes -= _measure(record)
            if record.offset + 1 >= ends.get(number, 0):
                ends.pop(number, None)
        return records

    def _read_to_end(self, consumer: kafka.Consumer, partitions: int) -> list[KafkaRecord]:
        records: list[KafkaRecord] = []
        while partitions:
            message = consumer.poll(self.seconds)
            if message is None:
                raise TimeoutError
            error = message.error()
            if error is None:
                records.append(_to_record(message))
            elif error.code() == kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 -- the client's own name for it
                partitions -= 1
            else:
                raise kafka.KafkaException(error)
        return records

    def _list_bounds(
        self, client: admin.AdminClient, topic: str, partitions: list[int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The first and the last stable offset of each partition.

        Partitions have no leader for a moment after their topic was created, and while brokers start.
        """
        give_up = time.monotonic() + self.seconds
        while True:
            try:
                earliest = self._list_offsets(client, topic, partitions, admin.OffsetSpec.earliest())
                return earliest, self._list_offsets(client, topic, partitions, admin.OffsetSpec.latest())
            except kafka.KafkaException as error:
                if error.args[0].code() not in _list_electing() or time.monotonic() > give_up:
                    raise
                time.sleep(ELECTION_SECONDS)

    def _list_offsets(
        self, client: admin.AdminClient, topic: str, partitions: list[int], which: admin.OffsetSpec
    ) -> dict[int, int]:
        specs = {kafka.TopicPartition(topic, number): which for number in partitions}
        answers = client.list_offsets(
            specs, isolation_level=kafka.IsolationLevel.READ_COMMITTED, request_timeout=self.seconds
        )
        return {partition.partition: self._wait(answer).offset for partition, answer in answers.items()}

    def _load_settings(self, client: admin.AdminClient, topic: str) -> Mapping[str, str]:
        """Load the topic's settings; none where the user may not see them."""
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        (answer,) = client.describe_configs([resource], request_timeout=self.seconds).values()
        try:
            entries = self._wait(answer)
        except kafka.KafkaException as error:
            if error.args[0].code() == kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return {}
            raise
        return {name: str(entry.value) for name, entry in entries.items()}

    def _wait(self, answer: Future[Any]) -> Any:
        return answer.result(self.seconds)

    @contextlib.contextmanager
    def _calling(self, connection: Connection, password: str | None) -> Iterator[admin.AdminClient]:
        """Open a client, and raise its errors as those of the domain."""
        if not HAS_CLIENT:
            raise Unavailable(
                "the server has no client of Kafka",
                hint="install it beside the server: pip install 'firn[kafka]'",
            )
        where = f"Kafka at {','.join(connection.brokers)}"
        errors: list[kafka.KafkaError] = []
        client = admin.AdminClient({**build_options(connection, password), "error_cb": errors.append})
        try:
            yield client
        except (TimeoutError, kafka.KafkaException) as error:
            client.poll(0)  # it calls error_cb with the reasons of the connections that failed
            refusals = [problem for problem in errors if problem.code() in _list_refusals()]
            own = [] if isinstance(error, TimeoutError) else [error.args[0]]
            raise _translate(where, [*refusals, *own, *reversed(errors)]) from error


def _open_consumer(connection: Connection, password: str | None) -> kafka.Consumer:
    """Open a client that reads committed records, commits no offsets, and says when a partition has no more."""
    return kafka.Consumer(
        {
            **build_options(connection, password),
            "group.id": _GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": _MESSAGE_BYTES,
            "queued.max.messages.kbytes": _QUEUED_KIB,
        }
    )


def _choose_ranges(topic: Topic, most: int) -> list[dict[int, tuple[int, int]]]:
    """The offsets of the oldest records of each partition, and those of the newest ones behind them."""
    filled = [(number, at) for number, at in topic.partitions.items() if at.earliest < at.stable]
    share = max(most // (2 * max(len(filled), 1)), 1)
    oldest = {number: (at.earliest, min(at.earliest + share, at.stable)) for number, at in filled[:most]}
    newest = {number: (max(at.stable - share, oldest[number][1]), at.stable) for number, at in filled[:most]}
    return [oldest, {number: (start, end) for number, (start, end) in newest.items() if start < end}]


def _measure(record: KafkaRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


_HINT = "check the brokers and the security of the connection, and that the server reaches every broker's own address"


def build_options(connection: Connection, password: str | None) -> dict[str, Any]:
    """Build librdkafka's settings. Its log goes to no file and to no terminal."""
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(connection.brokers),
        "security.protocol": connection.security.protocol,
        "client.id": _GROUP,
        "socket.timeout.ms": int(SECONDS * 1000),
        "socket.connection.setup.timeout.ms": int(SECONDS * 1000),
        "log_level": 0,
    }
    if connection.security.signs_in:
        options |= {
            "sasl.mechanism": str(connection.mechanism),
            "sasl.username": connection.username,
            "sasl.password": password,
        }
    return options if connection.ca is None else {**options, "ssl.ca.pem": connection.ca}


def _list_electing() -> set[int]:
    """The codes by which brokers say that a partition has no leader yet, or another one."""
    errors = kafka.KafkaError
    return {errors.NOT_LEADER_FOR_PARTITION, errors.LEADER_NOT_AVAILABLE}


def _list_refusals() -> set[int]:
    """The codes by which brokers refuse a user or a password."""
    errors = kafka.KafkaError
    return {
        errors.TOPIC_AUTHORIZATION_FAILED,
        errors.CLUSTER_AUTHORIZATION_FAILED,
        errors.GROUP_AUTHORIZATION_FAILED,
        errors.SASL_AUTHENTICATION_FAILED,
        errors._AUTHENTICATION,  # noqa: SLF001 -- the client's own name for it
    }


def _translate(where: str, errors: Sequence[kafka.KafkaError]) -> CatalogError:
    """The refusal for a failed call; the first error is the most telling one."""
    error = errors[0] if errors else None
    if error is None:
        return Unavailable(f"{where} does not answer", hint=_HINT)
    if error.code() in (kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, kafka.KafkaError.TOPIC_EXCEPTION):
        return NotFound(f"{where} has no such topic", hint="create the topic first, or check its name")
    if error.code() in _list_refusals():
        return Forbidden(f"{where} refuses the connection: {error.str()}")
    return Unavailable(f"{where} does not answer: {error.str()}", hint=_HINT)


def _to_record(message: kafka.Message) -> KafkaRecord:
    kind, milliseconds = message.timestamp()
    has_time = kind != kafka.TIMESTAMP_NOT_AVAILABLE
    partition, offset = message.partition(), message.offset()
    assert partition is not None  # a message without an error has both
    assert offset is not None
    return KafkaRecord(
        partition=partition,
        offset=offset,
        timestamp=datetime.fromtimestamp(milliseconds / 1000, UTC) if has_time else None,
        key=_to_bytes(message.key()),
        value=_to_bytes(message.value()),
    )


def _to_bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _read_limit(settings: Mapping[str, str], name: str) -> int | None:
    """Read a limit; None for -1, which is no limit, or if the cluster does not tell."""
    text = settings.get(name, "-1")
    return int(text) if text.isdecimal() else None
