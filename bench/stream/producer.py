"""Produces the records of a run in a process of its own, whose CPU seconds do not count.

    python -m bench.stream.producer BROKERS TOPIC PARTITIONS KEYS COUNT RATE

It prints `started` after the first record and `ended` after the last.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.stream.records import Upserts, produce


@dataclass
class Producer:
    """The process; nobody waits for its end before the clock is read, or its CPU seconds would count."""

    process: subprocess.Popen[str]
    count: int
    rate: float
    began: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def produced(self) -> int:
        """About how many records the topic has now."""
        return self.count if self.ended.is_set() else min(int((time.monotonic() - self.began) * self.rate), self.count)

    def listen(self) -> None:
        """Wait for the last record; RuntimeError if there is no first one."""
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "started":
            raise RuntimeError("the producer of records has not started")
        self.began = time.monotonic()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() == "ended":
            self.ended.set()


@contextmanager
def producing(brokers: str, topic: str, partitions: int, keys: int, count: int, rate: float) -> Iterator[Producer]:
    """Start it, and end it at the end of the block."""
    arguments = map(str, (brokers, topic, partitions, keys, count, rate))
    command = [sys.executable, "-m", "bench.stream.producer", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            producer = Producer(process, count, rate)
            producer.listen()
            yield producer
        finally:
            process.kill()


def main(arguments: list[str]) -> int:
    """Produce the records at a rate."""
    brokers, topic = arguments[:2]
    partitions, keys, count = map(int, arguments[2:5])

    def say_started() -> Iterator[tuple[int, str]]:
        for number, record in enumerate(Upserts(keys).draw(count)):
            if number == 0:
                print("started", flush=True)
            yield record

    produce(brokers, topic, partitions, say_started(), float(arguments[5]))
    print("ended", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
