"""Consumers of a keyed table's changes: up to which version each has them (docs/protocols.md, rule 7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.errors import Conflict, Invalid
from catalog.names import RelationId

LONGEST_NAME = 255
MOST_CONSUMERS = 100
"""The number of consumers that one table can have."""
PREFIX = "consumer:"
"""Before the name of a consumer, where a feed begins at its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A reader of changes. It has those up to `version`; expiry keeps the later ones until `kept_until`."""

    relation_id: RelationId
    name: str
    version: int
    created_at: datetime
    moved_at: datetime
    kept_until: datetime
    owner: str | None = None
    """The principal that registered it; None without access control."""


def check_consumer_name(name: str) -> None:
    """Raise Invalid unless the name is 1 to 255 printable characters without spaces at its ends."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise Invalid(f"a consumer's name has 1 to {LONGEST_NAME} printable characters, and no spaces at its ends")


def move_consumer(
    consumer: Consumer, version: int, now: datetime, max_age: timedelta, *, expected: int | None
) -> Consumer:
    """The consumer at another version; Conflict if it is not at the expected one."""
    if expected is not None and consumer.version != expected:
        raise Conflict(
            f"consumer {consumer.name!r} is at version {consumer.version}, not at {expected}",
            hint="another copy of it has moved it: read on from its version",
        )
    return replace(consumer, version=version, moved_at=now, kept_until=now + max_age)


def find_slowest(consumers: Sequence[Consumer], now: datetime) -> int | None:
    """The lowest version from which a consumer may still read on; None if expiry need not wait for any."""
    return min((consumer.version for consumer in consumers if consumer.kept_until > now), default=None)
