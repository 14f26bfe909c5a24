"""Reads the records of a log that no drain has brought yet, by confluent-kafka (docs/streams.md#log-store)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firn.errors import FirnError, Refused, Unavailable
from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut

try:
    import confluent_kafka as kafka
except ImportError:  # an extra: see read_tail
    HAS_CLIENT = False
else:
    HAS_CLIENT = True

SECONDS = 30.0
"""How long a read waits for the next record."""
_GROUP = "firn-scan"
"""The client demands a consumer group. A read commits no offsets to it."""


@dataclass(frozen=True, slots=True)
class TailRecord:
    """One committed record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def read_tail(log: LogOut, batch: LogBatch, password: str | None, seconds: float = SECONDS) -> Iterator[TailRecord]:
    """Read the committed records of a batch, in the order of each partition.

    The batch ends at the last stable offset or before. Raises FirnError without confluent-kafka, Refused if the topic
    no longer has the first records, and Unavailable if Kafka does not answer within so many seconds.
    """
    if not HAS_CLIENT:
        raise FirnError("reading a log without Spark needs confluent-kafka: pip install 'firn[kafka]'")
    left = {number: end for number, end in batch.end.items() if batch.start[number] < end}
    if not left:
        return
    consumer = kafka.Consumer(build_options(log, password))
    with contextlib.closing(consumer):
        consumer.assign([kafka.TopicPartition(batch.topic, number, batch.start[number]) for number in left])
        while left:
            message = consumer.poll(seconds)
            if message is None:
                raise Unavailable(f"Kafka at {','.join(log.brokers)} sent no record for {seconds:g} s")
            if (record := _take(message, left)) is not None:
                yield record


def _take(message: Any, left: dict[int, int]) -> TailRecord | None:
    """The record of a message, if the batch has it; ends the partition at its last offset."""
    number, offset, error = message.partition(), message.offset(), message.error()
    if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 -- the client's own name
        raise translate_error(error)
    end = left.get(number, 0)  # a partition that is done may send more records
    if offset >= (end if error is not None else end - 1):
        left.pop(number, None)
    if error is not None or offset >= end:
        return None
    return TailRecord(number, offset, message.key(), message.value())


def translate_error(error: Any) -> FirnError:
    if error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 -- the client's own name
        return Refused(
            f"the topic no longer has records that the table does not have: {error.str()}",
            hint="`firn log show` says which are missing",
        )
    return Unavailable(f"Kafka does not give the records of the log: {error.str()}")


def build_options(log: LogOut, password: str | None) -> dict[str, Any]:
    """Librdkafka's settings for a consumer of the log's topic.

    Without `auto.offset.reset=error` the client would leave out records that the topic no longer has, and say nothing.
    """
    return {
        **build_connection_options(log, password),
        "client.id": _GROUP,
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }


def build_connection_options(log: LogOut, password: str | None) -> dict[str, Any]:
    """Librdkafka's settings for the log's cluster, of consumers and producers."""
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(log.brokers),
        "security.protocol": str(log.security).upper().replace("-", "_"),
        "log_level": 0,
    }
    if log.mechanism is not None:
        options |= {
            "sasl.mechanism": str(log.mechanism),
            "sasl.username": log.username or "",
            "sasl.password": password or "",
        }
    return options if log.ca is None else {**options, "ssl.ca.pem": log.ca}
