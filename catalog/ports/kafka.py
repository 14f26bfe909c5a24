"""Ports of connections to Kafka: the stored connections, and the client of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.kafka.cluster import ClusterSummary, KafkaRecord, Topic
from catalog.kafka.connection import Connection
from catalog.kafka.schema_registry import RegisteredSchema, SchemaRegistry


class Connections(Protocol):
    """The connections in the database, by name."""

    def add(self, connection: Connection) -> None:
        """Raises AlreadyExists when the name exists."""

    def get(self, name: str) -> Connection:
        """Raises NotFound."""

    def list(self) -> Sequence[Connection]:
        """By name."""

    def remove(self, name: str) -> None: ...


class PasswordSealer(Protocol):
    """Encrypts passwords of connections with a key that the database does not have."""

    def seal_text(self, label: str, text: str) -> str: ...
    def unseal_text(self, label: str, sealed: str) -> str:
        """Invalid if it was sealed with another key, or under another label."""


class KafkaClusters(Protocol):
    """A client of Kafka clusters. Safe to share between threads; each call takes seconds at most.

    All methods raise Unavailable if no broker answers, and Forbidden if the brokers refuse the user or the password.
    """

    def summarize(self, connection: Connection, password: str | None) -> ClusterSummary: ...

    def describe(self, connection: Connection, password: str | None, topic: str) -> Topic:
        """The topic with the offsets of its partitions now; NotFound."""

    def find_offsets(
        self, connection: Connection, password: str | None, topic: Topic, at: datetime
    ) -> Mapping[int, int]:
        """The offset of each partition's first record since a time, within its bounds; the end if there is none."""

    def read_newest(self, connection: Connection, password: str | None, topic: Topic, most: int) -> list[KafkaRecord]:
        """Up to so many of the newest committed records of a topic, in the order of partition and offset."""

    def list_topics(self, connection: Connection, password: str | None) -> Sequence[str]:
        """The topics that the user may see, without those of Kafka itself, by name."""

    def read_ends(
        self, connection: Connection, password: str | None, topic: Topic, most: int, most_bytes: int
    ) -> list[KafkaRecord]:
        """Up to `most` of the oldest and newest committed records of a topic.

        They have `most_bytes` together, beside the last one, or fewer.
        """


class SchemaRegistries(Protocol):
    """A client of schema registries. Safe to share between threads; each call takes a minute at most.

    `ca` are PEM certificates of authorities beside those of the system. All methods raise Unavailable if the registry
    does not answer, Forbidden if it refuses the user, and Invalid if it answers like something else.
    """

    def load_schema(
        self, registry: SchemaRegistry, password: str | None, number: int, ca: str | None
    ) -> RegisteredSchema:
        """The Avro schema of an id; NotFound if there is none, or one of another kind."""

    def count_subjects(self, registry: SchemaRegistry, password: str | None, ca: str | None) -> int:
        """The number of subjects that the user sees."""
