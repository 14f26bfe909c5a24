"""Plans of change feeds: which snapshots lie between two versions of a keyed table (docs/changes.md)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.errors import Conflict, Invalid, NotFound
from catalog.history.change_feed import ChangeFeed, FeedHistory, expired, read_watermark_at
from catalog.iceberg.json import Json
from catalog.keyed.consumer import PREFIX, Consumer
from catalog.keyed.partial import Folding, read_folding
from catalog.keyed.spec import BASE, CHANGE, Version
from catalog.keyed.view_sql import Pair, build_merged_sql, name_pinned_view, quote_name
from catalog.names import CatalogName, TableName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import RelationKind
from server.service.planning.planner import find_planned_relation
from server.service.tables.keyed_tables import KeyedTables, Pin

_HIGHEST_VERSION = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFeed:
    """A feed, and the table whose stores it reads."""

    pin: Pin
    feed: ChangeFeed

    @property
    def folding(self) -> Folding | None:
        """How changes that set some columns are folded; None if every change sets all."""
        return read_folding(self.pin.base, self.pin.change)

    def name_store(self, version: Version, store: str) -> str:
        """The name of the pinned table of a store at a version, with the columns that the table has now."""
        metadata, snapshot_id = self._at(version, store)
        return name_pinned_view(store, snapshot_id, metadata["current-schema-id"])

    def read_watermark(self, version: Version) -> int:
        """The sequence number up to which base has all changes at a version."""
        return read_watermark_at(self.pin.base, version.base_snapshot_id)

    def write_sql(self, version: Version, spark_catalog: str) -> str:
        """The SQL of the merged rows at a version, for a session that knows the catalog by this name."""
        namespace = self.pin.relation.name.as_namespace
        return build_merged_sql(
            Pair(
                spec=self.pin.keyed.spec,
                columns=self.pin.columns,
                base=quote_name(spark_catalog, *namespace, self.name_store(version, BASE)),
                change=quote_name(spark_catalog, *namespace, self.name_store(version, CHANGE)),
                watermark=self.read_watermark(version),
                pending=version.change_snapshot_id is not None,
                folding=self.folding,
            )
        )

    def _at(self, version: Version, store: str) -> tuple[Json, int | None]:
        if store == BASE:
            return self.pin.base, version.base_snapshot_id
        return self.pin.change, version.change_snapshot_id


@dataclass(frozen=True)
class ChangeFeeds:
    """Finds the versions that a reader names, and what lies between them."""

    tables: KeyedTables

    def pin(self, uow: UnitOfWork, catalog: CatalogName, table: TableName) -> Pin:
        """Both stores of a keyed table. Raises NoSuchTable, and Invalid for a table without a primary key."""
        relation = find_planned_relation(uow, catalog, table)
        if relation.kind is not RelationKind.KEYED:
            raise Invalid(
                f"{table} has no primary key: Firn computes changes of keyed tables only",
                hint="read a plain table's appends with Iceberg's incremental scan",
            )
        return self.tables.pin_relation(uow, relation)

    def plan(
        self, catalog: CatalogName, table: TableName, since: str, until: str | None, *, each: bool = False
    ) -> PlannedFeed:
        """Plan a feed. `since` is a version, a time, or `consumer:` and the name of a consumer; `until` is a version or
        a time. Without `until`, the feed ends at the newest version.

        Raises NoSuchTable, Invalid for a table without a primary key or a version that it does not have, NotFound for
        an unknown consumer, and Conflict if the history at `since` has expired.
        """
        with self.tables.database.reading() as uow:
            pin = self.pin(uow, catalog, table)
            consumer = _find_consumer(uow, pin, since)
            first = find_position(uow, pin, since) if consumer is None else consumer.version
            last = find_position(uow, pin, until)
            versions = list_versions(uow, pin, first)
        history = FeedHistory(
            name=pin.relation.name, keyed=pin.keyed, base=pin.base, change=pin.change, versions=versions
        )
        if consumer is not None and find_start(history, first) is None:
            raise _is_behind(pin.relation.name, consumer, history.find_first_left(first))
        return PlannedFeed(pin=pin, feed=history.plan(first, last, each=each))


def find_start(history: FeedHistory, number: int) -> Version | None:
    """The version of this number if a feed can start from it."""
    version = next((version for version in history.versions if version.version == number), None)
    return version if version is not None and history.is_readable(version) else None


def _find_consumer(uow: UnitOfWork, pin: Pin, since: str) -> Consumer | None:
    if not since.startswith(PREFIX):
        return None
    name = since.removeprefix(PREFIX)
    consumer = uow.consumers.find(pin.relation.id, name)
    if consumer is None:
        raise NotFound(
            f"{pin.relation.name} has no consumer {name!r}", hint="`firn consumer list` shows the consumers of a table"
        )
    return consumer


def _is_behind(table: TableName, consumer: Consumer, first_left: int) -> Conflict:
    return Conflict(
        f"consumer {consumer.name!r} is behind: version {consumer.version} of {table} has expired; the first version "
        f"that is left is {first_left}",
        hint=f"read the table as a whole, then run `firn consumer reset {table} {consumer.name} --to {first_left}`",
    )


def find_position(uow: UnitOfWork, pin: Pin, text: str | None) -> int:
    """The number of a version that a reader names by number or time; None means the newest.

    Raises Invalid for other text, and Conflict for a time whose version has expired.
    """
    if text is None:
        return pin.keyed.version
    if text.isascii() and text.isdecimal():
        return min(int(text[:12]), _HIGHEST_VERSION)
    at = _parse_time(text)
    version = uow.keyed.version_at(pin.relation.id, at)
    if version is not None:
        return version.version
    if at >= pin.relation.created_at and not uow.keyed.versions_between(pin.relation.id, 0, _HIGHEST_VERSION):
        return 0
    left = list_versions(uow, pin, 0)
    history = FeedHistory(name=pin.relation.name, keyed=pin.keyed, base=pin.base, change=pin.change, versions=left)
    first_left = history.find_first_left()
    if first_left == 0:
        return 0
    raise expired(pin.relation.name, f"the version at {text}", first_left)


def _parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is neither a version nor a time", hint="write a number, or a time as 2026-11-21T09:30:00Z"
        ) from error
    if at.tzinfo is None:
        raise Invalid(f"the time {text!r} has no zone", hint="write it as 2026-11-21T09:30:00Z")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise Invalid(f"the time {text!r} is out of range") from error


def list_versions(uow: UnitOfWork, pin: Pin, first: int) -> list[Version]:
    """The versions from this one on. Version 0 is the table before its first commit."""
    stored = uow.keyed.versions_between(pin.relation.id, first, _HIGHEST_VERSION)
    if first > 0:
        return [*stored]
    empty = Version(
        relation_id=pin.relation.id,
        version=0,
        base_snapshot_id=None,
        change_snapshot_id=None,
        committed_at=pin.relation.created_at,
    )
    return [empty, *stored]
