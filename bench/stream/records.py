"""Upserts of orders as JSON records, always the same for a seed, with what they must add up to.

A record is a whole row: `firn-json` without `_op` is an upsert, and every JSON format of Flink reads it. The records of
a key lie in one partition of the topic, so offsets order them. Nine of ten keys belong to the first of 29 days if days
are `hot`; a key never changes its day.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TypeVar

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

COLUMNS = (
    "id BIGINT, qty BIGINT, status BIGINT, store BIGINT, sku BIGINT, amount BIGINT, customer STRING, note STRING,"
    " day STRING, at BIGINT"
)
DAYS = 29
SECONDS = 180.0
AT_ONCE = 50
T = TypeVar("T")
_CHUNK = 1_000
_FIRST_DAY = date(2026, 1, 1)
_NAMES = [str(_FIRST_DAY + timedelta(days=day)) for day in range(DAYS)]


@dataclass(frozen=True, slots=True)
class Totals:
    """What a reader of the table must see."""

    rows: int
    qty: int
    amount: int


@dataclass
class Upserts:
    """Draws records. `rows` has quantity and amount of the newest record of each key."""

    keys: int
    seed: int = 42
    unique: bool = False
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)

    def draw(self, count: int) -> Iterator[tuple[int, str]]:
        """Keys and values of the first `count` records: of all keys in turn if they are unique, else of any."""
        for key, values in self._draw(count):
            yield key, _format(key, values)

    def apply(self, count: int) -> None:
        """Take over the first `count` records, which another process sends."""
        for _ in self._draw(count):
            pass

    def _draw(self, count: int) -> Iterator[tuple[int, list[int]]]:
        random = np.random.default_rng(self.seed)
        for start in range(0, count, _CHUNK):
            drawn = random.integers(0, [self.keys, 100, 8, 500, 50_000, 64_000, 100_000, 2**62], (_CHUNK, 8))
            for number, values in enumerate(drawn[: count - start].tolist(), start):
                key = number if self.unique else values[0]
                self.rows[key] = (values[1], values[5])
                yield key, values

    def totals(self) -> Totals:
        """Of the newest record of each key drawn so far."""
        return Totals(
            len(self.rows), sum(qty for qty, _ in self.rows.values()), sum(amount for _, amount in self.rows.values())
        )


def _format(key: int, values: list[int]) -> str:
    return json.dumps(
        {
            "id": key,
            "qty": values[1],
            "status": values[2],
            "store": values[3],
            "sku": values[4],
            "amount": values[5],
            "customer": f"customer-{values[6]:011d}",
            "note": f"{values[7]:020x}",
            "day": _NAMES[0 if key % 10 < 9 else 1 + key // 10 % (DAYS - 1)],
            "at": time.time_ns() // 1_000_000,
        }
    )


def create_topic(brokers: str, name: str, partitions: int) -> None:
    """Create an empty topic; KafkaException if it cannot be created."""
    admin = AdminClient({"bootstrap.servers": brokers})  # it must live until the result is there
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])[name].result(SECONDS)


def delete_topic(brokers: str, name: str) -> None:
    """Delete a topic that nobody needs any more, and its records; KafkaException if it cannot be deleted."""
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.delete_topics([name])[name].result(SECONDS)


def keep_rate(records: Iterator[T], rate: int, at_once: int = AT_ONCE) -> Iterator[T]:
    """The same records, so many a second; `at_once` of them between two looks at the clock."""
    began = time.monotonic()
    for number, record in enumerate(records):
        if number % at_once == 0:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield record


def produce(brokers: str, topic: str, partitions: int, records: Iterator[tuple[int, str]]) -> None:
    """Write records; return once the broker has them all."""
    # Without idempotence, what a producer sends again, such as to a new topic, overtakes other records.
    settings = {"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": brokers, **settings})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, key=str(key), value=value, partition=key % partitions)
                break
            except BufferError:
                producer.poll(1)
    if producer.flush(SECONDS) != 0:
        raise TimeoutError(f"the broker has not taken all records of {topic} within {SECONDS:.0f} s")
