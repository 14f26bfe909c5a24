"""Kafka clusters in memory: topics with transactions, as the server's services see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

from catalog.errors import Forbidden, NotFound, Unavailable
from catalog.kafka.cluster import ClusterSummary, KafkaRecord, Offsets, Topic
from catalog.kafka.connection import Connection
from tests.factories import NOW
from tests.server.kafka.behaviour import EndTransaction

_NUMBERS = count(1)


@dataclass
class _Entry:
    """One offset of a partition: a record, or the mark at the end of a transaction."""

    record: KafkaRecord | None
    is_open: bool = False
    is_aborted: bool = False


@dataclass
class FakeClusters:
    """See catalog.ports.kafka.KafkaClusters. Brokers that are not in `up` do not answer."""

    up: frozenset[str] = frozenset({"kafka:9092"})
    passwords: Mapping[str, str] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    """Settings and ids; the offsets are those of `entries`."""
    entries: dict[str, dict[int, list[_Entry]]] = field(default_factory=dict)
    earliest: dict[tuple[str, int], int] = field(default_factory=dict)

    def create(self, name: str, partitions: int = 1, *, id: str | None = None, **more: int | bool) -> None:
        """Create a topic, or create it again under another id."""
        self.topics[name] = Topic(name=name, id=id or f"id of {name}", partitions={}, **more)  # type: ignore[arg-type]
        self.entries[name] = {number: [] for number in range(partitions)}
        self.earliest = {place: offset for place, offset in self.earliest.items() if place[0] != name}

    def add_partitions(self, name: str, total: int) -> None:
        """Add empty partitions."""
        self.entries[name] |= {number: [] for number in range(len(self.entries[name]), total)}

    def drop_before(self, name: str, offset: int, partition: int = 0) -> None:
        """Drop records, as retention does."""
        self.earliest[name, partition] = offset

    def produce(self, name: str, *values: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
        """Append records to a partition without a transaction."""
        self._append(name, partition, values)

    def begin(self, name: str, *values: tuple[bytes | None, bytes | None], partition: int = 0) -> EndTransaction:
        """Append records in a transaction; the function that is returned commits or aborts it."""
        added = self._append(name, partition, values, is_open=True)

        def end(*, commit: bool) -> None:
            for entry in added:
                entry.is_open, entry.is_aborted = False, not commit
            self.entries[name][partition].append(_Entry(None))

        return end

    def _append(
        self, name: str, partition: int, values: tuple[tuple[bytes | None, bytes | None], ...], *, is_open: bool = False
    ) -> list[_Entry]:
        entries, added = self.entries[name][partition], list[_Entry]()
        for key, value in values:
            moment = NOW + timedelta(milliseconds=next(_NUMBERS))
            record = KafkaRecord(partition=partition, offset=len(entries), timestamp=moment, key=key, value=value)
            added.append(_Entry(record, is_open))
            entries.append(added[-1])
        return added

    def summarize(self, connection: Connection, password: str | None) -> ClusterSummary:
        self._sign_in(connection, password)
        return ClusterSummary(cluster_id="fake", brokers=1, topics=len(self.topics))

    def describe(self, connection: Connection, password: str | None, topic: str) -> Topic:
        self._sign_in(connection, password)
        if topic not in self.topics:
            raise NotFound(f"Kafka at {','.join(connection.brokers)} has no such topic")
        offsets = {
            number: Offsets(self.earliest.get((topic, number), 0), _find_stable(entries))
            for number, entries in self.entries[topic].items()
        }
        return replace(self.topics[topic], partitions=offsets)

    def find_offsets(self, connection: Connection, password: str | None, topic: Topic, at: datetime) -> dict[int, int]:
        self._sign_in(connection, password)
        return {
            number: next(
                (
                    entry.record.offset
                    for entry in self.entries[topic.name][number][bounds.earliest : bounds.stable]
                    if entry.record is not None and (entry.record.timestamp or NOW) >= at
                ),
                bounds.stable,
            )
            for number, bounds in topic.partitions.items()
        }

    def read_newest(self, connection: Connection, password: str | None, topic: Topic, most: int) -> list[KafkaRecord]:
        self._sign_in(connection, password)
        kept = [
            entry.record
            for number, bounds in topic.partitions.items()
            for entry in self.entries[topic.name][number][max(bounds.earliest, bounds.stable - most) : bounds.stable]
            if entry.record is not None and not entry.is_aborted
        ]
        newest = sorted(kept, key=lambda record: record.timestamp or NOW)[-most:]
        return sorted(newest, key=lambda record: (record.partition, record.offset))

    def list_topics(self, connection: Connection, password: str | None) -> list[str]:
        self._sign_in(connection, password)
        return sorted(name for name in self.topics if not name.startswith("__"))

    def read_ends(
        self, connection: Connection, password: str | None, topic: Topic, most: int, most_bytes: int
    ) -> list[KafkaRecord]:
        self._sign_in(connection, password)
        records = list[KafkaRecord]()
        for number, offset in sorted({*list_ends(topic, most)}):
            entry = self.entries[topic.name][number][offset]
            size = sum(len(kept.value or b"") + len(kept.key or b"") for kept in records)
            if entry.record is not None and not entry.is_aborted and size < most_bytes:
                records.append(entry.record)
        return records

    def _sign_in(self, connection: Connection, password: str | None) -> None:
        where = f"Kafka at {','.join(connection.brokers)}"
        if not self.up & {*connection.brokers}:
            raise Unavailable(f"{where} does not answer: connection refused")
        if connection.username is not None and self.passwords.get(connection.username) != password:
            raise Forbidden(f"{where} refuses the connection: wrong password")


def list_ends(topic: Topic, most: int) -> Iterator[tuple[int, int]]:
    """Partitions and offsets of the oldest and the newest records."""
    filled = {number: at for number, at in topic.partitions.items() if at.earliest < at.stable}
    share = max(most // (2 * max(len(filled), 1)), 1)
    for number, at in [*filled.items()][:most]:
        yield from ((number, offset) for offset in range(at.earliest, min(at.earliest + share, at.stable)))
        yield from ((number, offset) for offset in range(max(at.stable - share, at.earliest), at.stable))


def _find_stable(entries: list[_Entry]) -> int:
    return next((offset for offset, entry in enumerate(entries) if entry.is_open), len(entries))
