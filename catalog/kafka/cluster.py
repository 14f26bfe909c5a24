"""What a Kafka cluster says about itself and its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """A cluster, as the user of a connection sees it."""

    cluster_id: str | None
    brokers: int
    topics: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """The records that one partition of a topic has: from `earliest` up to, but without, `stable`."""

    earliest: int
    stable: int
    """The last stable offset: all transactions below it are committed or aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic at one moment."""

    name: str
    id: str
    """Another topic of the same name has another id."""
    partitions: Mapping[int, Offsets]
    retention_ms: int | None = None
    """How long the topic keeps records; None for no limit by time."""
    retention_bytes: int | None = None
    """How many bytes each partition keeps; None for no limit."""
    is_compacted: bool = False
    """Whether the topic keeps only the newest record of each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """A record of a topic."""

    partition: int
    offset: int
    timestamp: datetime | None
    key: bytes | None
    value: bytes | None
