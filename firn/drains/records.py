"""Reads the records of a batch by confluent-kafka, in parts, up to a bound of bytes and of records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from firn.errors import FirnError, Refused, Unauthenticated, Unavailable
from firn.log_tail import HAS_CLIENT, SECONDS, build_options, translate_error
from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut

if HAS_CLIENT:
    import confluent_kafka as kafka

MOST_BYTES = 64 * 2**20
"""Of keys and values in one commit: with Python's objects and Arrow's columns, a drain needs a few times as much."""
MOST_RECORDS = 500_000
PART_RECORDS = 10_000
"""Records that are decoded at once."""
_PART_BYTES = 8 * 2**20
_POLL_SECONDS = 0.1
_QUEUE_KIB = 16 * 2**10
"""What the client fetches ahead; its default of 64 MiB is for each stream of an optimizer."""


@dataclass
class BatchReader:
    """One read of a batch. After `read_parts`, `reached` is the part of the batch that it has read."""

    log: LogOut
    batch: LogBatch
    password: str | None = field(repr=False)
    check: Callable[[], None] = lambda: None
    seconds: float = SECONDS
    """How long it waits for the next record."""
    most_bytes: int = MOST_BYTES
    most_records: int = MOST_RECORDS
    _next: dict[int, int] = field(init=False)
    _error: Any = None

    def __post_init__(self) -> None:
        self._next = {**self.batch.start}

    @property
    def reached(self) -> LogBatch:
        """The offsets of the batch up to which the records have been read."""
        return replace(self.batch, end={number: self._next[number] for number in self.batch.end})

    def read_parts(self) -> Iterator[list[Any]]:
        """The committed records as the client's messages, in the order of each partition; no part is empty.

        Raises Refused if the topic no longer has the first records, Unauthenticated for a wrong password, and
        Unavailable if Kafka does not answer.
        """
        left = {number: end for number, end in self.batch.end.items() if self.batch.start[number] < end}
        if not left:
            return
        options = build_options(self.log, self.password)
        options |= {"queued.max.messages.kbytes": _QUEUE_KIB, "error_cb": self._note_error}
        with contextlib.closing(kafka.Consumer(options)) as consumer:
            start = self.batch.start
            consumer.assign([kafka.TopicPartition(self.batch.topic, number, start[number]) for number in left])
            yield from self._read(consumer, left)

    def _read(self, consumer: Any, left: dict[int, int]) -> Iterator[list[Any]]:
        part, size, total_size, total = list[Any](), 0, 0, 0
        heard = time.monotonic()
        while left and total_size < self.most_bytes and total < self.most_records:
            self.check()
            messages = consumer.consume(min(PART_RECORDS, self.most_records - total), _POLL_SECONDS)
            heard = self._require_answer(heard, is_heard=bool(messages))
            for message in messages:
                if total_size < self.most_bytes and self._take(message, left):
                    part.append(message)
                    length = len(message.value() or b"") + len(message.key() or b"")
                    size, total_size, total = size + length, total_size + length, total + 1
            if len(part) >= PART_RECORDS or size >= _PART_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _take(self, message: Any, left: dict[int, int]) -> bool:
        """Whether the batch has the record of this message; ends the partition at its last offset."""
        number, offset, error = message.partition(), message.offset(), message.error()
        if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 -- its own name
            raise translate_error(error)
        end = left.get(number)
        if end is None:  # a partition that is done may send more records
            return False
        is_record = error is None and offset < end
        if offset >= (end if error is not None else end - 1):
            del left[number]
            self._next[number] = end
        elif is_record:
            self._next[number] = offset + 1
        return is_record

    def _note_error(self, error: Any) -> None:
        self._error = error

    def _require_answer(self, heard: float, *, is_heard: bool) -> float:
        """The time of the last message; raises if that is too long ago, or if Kafka refuses the user."""
        now = time.monotonic()
        if is_heard:
            return now
        brokers = ",".join(self.log.brokers)
        if self._error is not None and self._error.code() == kafka.KafkaError._AUTHENTICATION:  # noqa: SLF001
            raise Unauthenticated(
                f"Kafka at {brokers} refuses user {self.log.username}: {self._error.str()}",
                hint="firn drain takes the password from $FIRN_KAFKA_PASSWORD",
            )
        if now - heard > self.seconds:
            why = "" if self._error is None else f": {self._error.str()}"
            raise Unavailable(f"Kafka at {brokers} sent no record for {self.seconds:g} s{why}")
        return heard


def explain_gap(error: FirnError) -> bool:
    """Whether the error says that the topic has lost records; the server names them when it is asked for the log."""
    return isinstance(error, Refused) and not isinstance(error, Unauthenticated)
