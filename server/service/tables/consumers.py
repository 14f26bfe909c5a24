"""Consumers of a keyed table's changes: they register, move and go; expiry keeps what they need (docs/changes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.errors import Conflict, NotFound
from catalog.history.change_feed import FeedHistory
from catalog.keyed.consumer import MOST_CONSUMERS, Consumer, check_consumer_name, move_consumer
from catalog.names import CatalogName, TableName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation
from server.service.access.caller import caller
from server.service.planning.policies import load_policy
from server.service.tables.change_feeds import ChangeFeeds, find_position, find_start, list_versions
from server.service.tables.keyed_tables import Pin

MAX_AGE = "firn.consumers.max-age"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """A consumer, and how far it is behind the newest version."""

    consumer: Consumer
    newest_version: int
    first_version_left: int | None
    """Set if the consumer cannot read on: the first version from which it could."""
    rows: int
    """Changes that it has not read."""
    waiting_since: datetime | None
    """When the first version that it has not read was committed; None if there is none."""


@dataclass(frozen=True)
class Consumers:
    """The consumers of keyed tables."""

    feeds: ChangeFeeds

    def list(self, catalog: CatalogName, table: TableName) -> Sequence[ConsumerStatus]:
        """List the consumers of a table by name; see `ChangeFeeds.pin` for failures."""
        with self.feeds.tables.database.reading() as uow:
            pin = self.feeds.pin(uow, catalog, table)
            return [_measure(uow, pin, consumer) for consumer in uow.consumers.list(pin.relation.id)]

    def get(self, catalog: CatalogName, table: TableName, name: str) -> ConsumerStatus:
        """Get a consumer; raises NotFound."""
        with self.feeds.tables.database.reading() as uow:
            pin = self.feeds.pin(uow, catalog, table)
            consumer = uow.consumers.find(pin.relation.id, name)
            return _measure(uow, pin, _require(consumer, table, name))

    def move(
        self, catalog: CatalogName, table: TableName, name: str, to: str | None, *, expected: int | None = None
    ) -> ConsumerStatus:
        """Register a consumer, or move it: to a version or time, by default to the newest version.

        Raises Invalid for a bad name or a version that the table does not have. Raises Conflict for an expired version,
        for a consumer that is not at the version `expected`, and for too many consumers.
        """
        check_consumer_name(name)
        with self.feeds.tables.database.writing() as uow:
            # Commits lock the keyed table: an expiry either sees this consumer, or this sees the expired versions.
            uow.keyed.lock(self.feeds.pin(uow, catalog, table).relation.id)
            pin = self.feeds.pin(uow, catalog, table)
            number = find_position(uow, pin, to)
            version = _load_history(uow, pin, number).require(number)
            consumer = uow.consumers.find(pin.relation.id, name)
            if consumer is None:
                consumer = _make_consumer(uow, pin.relation, name, expected)
            max_age = load_policy(uow, pin.relation, pin.base.get("properties") or {})[MAX_AGE]
            moved = move_consumer(consumer, version.version, uow.now(), max_age, expected=expected)
            uow.consumers.put(moved)
            return _measure(uow, pin, moved)

    def drop(self, catalog: CatalogName, table: TableName, name: str) -> None:
        """Drop a consumer: expiry no longer keeps anything for it. Raises NotFound."""
        with self.feeds.tables.database.writing() as uow:
            relation = self.feeds.pin(uow, catalog, table).relation
            if not uow.consumers.remove(relation.id, name):
                _require(None, table, name)


def _make_consumer(uow: UnitOfWork, relation: Relation, name: str, expected: int | None) -> Consumer:
    if expected is not None:
        _require(None, relation.name, name)
    if len(uow.consumers.list(relation.id)) >= MOST_CONSUMERS:
        raise Conflict(
            f"{relation.name} has {MOST_CONSUMERS} consumers, the most that a table can have",
            hint="`firn consumer list` shows them; drop those that nobody runs any more",
        )
    now = uow.now()
    return Consumer(
        relation_id=relation.id,
        name=name,
        version=0,
        created_at=now,
        moved_at=now,
        kept_until=now,
        owner=caller.get().principal,
    )


def _measure(uow: UnitOfWork, pin: Pin, consumer: Consumer) -> ConsumerStatus:
    history = _load_history(uow, pin, consumer.version)
    start = find_start(history, consumer.version)
    later = [version for version in history.versions if version.version > consumer.version]
    rows = 0
    if start is not None and later:
        sequence = history.read_sequence_number(start)
        rows = uow.events.pending(pin.keyed.change_id, above=sequence)[0]
    return ConsumerStatus(
        consumer=consumer,
        newest_version=pin.keyed.version,
        first_version_left=None if start is not None else history.find_first_left(consumer.version),
        rows=rows,
        waiting_since=later[0].committed_at if later else None,
    )


def _load_history(uow: UnitOfWork, pin: Pin, first: int) -> FeedHistory:
    versions = list_versions(uow, pin, first)
    return FeedHistory(name=pin.relation.name, keyed=pin.keyed, base=pin.base, change=pin.change, versions=versions)


def _require(consumer: Consumer | None, table: TableName, name: str) -> Consumer:
    if consumer is None:
        raise NotFound(f"{table} has no consumer {name!r}", hint="`firn consumer list` shows the consumers of a table")
    return consumer
