"""A producer in a process of its own: it shares no interpreter with readers, whose times it would stretch."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.stream.records import SECONDS, Upserts, keep_rate, produce
from bench.stream.sightings import Integers

LOOKS_PER_SECOND = 1_000
"""How often it looks at the clock, at most: records do not come in bunches."""
_BATCH = 10_000
Partition = tuple[str, int]
"""A topic, and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the process sends: the first `count` records that Upserts with these keys and this seed draw."""

    brokers: str
    topic: str
    partitions: int
    rate: int
    count: int
    keys: int
    seed: int


class Producing:
    """The process, and how long it took."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Of a process that was just started."""
        self._process, self._log = process, log
        self.seconds = 0.0

    def has_ended(self) -> bool:
        """Whether the broker has all records; RuntimeError if the process has failed."""
        if self._process.poll() is None:
            return False
        if self._process.returncode:
            raise RuntimeError(f"the producer has failed: {self._log.read_text(encoding='utf-8')[-2000:]}")
        if not self.seconds and self._process.stdout is not None:
            self.seconds = float(self._process.stdout.read())
        return True


@contextmanager
def producing(order: Order, log: Path) -> Iterator[Producing]:
    """Start the process; it has ended after the block."""
    command = [sys.executable, "-m", "bench.stream.producing", *(str(value) for value in _values(order))]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            try:
                yield Producing(process, log)
            finally:
                process.terminate()


def read_times(brokers: str, starts: Mapping[Partition, int], count: int) -> dict[Partition, Integers]:
    """`at` of the records of each partition from an offset on, in their order; AssertionError if there are fewer."""
    times: dict[Partition, list[int]] = {partition: [] for partition in starts}
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, number, start) for (topic, number), start in starts.items()])
        left = count
        while left:
            messages = consumer.consume(min(left, _BATCH), SECONDS)
            if not messages:
                raise AssertionError(f"the topics have {count - left} new records, but {count} were sent")
            for message in messages:
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
                times[message.topic(), message.partition()].append(read_time(message.value()))
            left -= len(messages)
    finally:
        consumer.close()
    return {partition: np.array(each, np.int64) for partition, each in times.items()}


def read_time(value: bytes) -> int:
    """When a record was made, in milliseconds: its last field."""
    return int(value[value.rindex(b":") + 1 : -1])


def _values(order: Order) -> Iterator[str | int]:
    yield from (order.brokers, order.topic, order.partitions, order.rate, order.count, order.keys, order.seed)


def main(arguments: list[str], output: TextIO) -> None:
    """Send the records at their rate; then write the seconds that it took."""
    brokers, topic, *numbers = arguments
    partitions, rate, count, keys, seed = map(int, numbers)
    began = time.monotonic()
    drawn = keep_rate(Upserts(keys, seed=seed).draw(count), rate, max(1, rate // LOOKS_PER_SECOND))
    produce(brokers, topic, partitions, drawn)
    output.write(json.dumps(time.monotonic() - began))


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
