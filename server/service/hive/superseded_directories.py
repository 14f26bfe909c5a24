"""Lists a linked table's superseded directories: those that publishes replaced, with their bytes.

During its grace period a sync watches such a directory, and the link has its files. After that the link keeps the total
of the directories that Hive's side made: only their owner deletes these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.hive.superseded_directories import is_made_by_hive
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from server.service.hive.hive_state import LinkedTable, find_linked_relation, load_linked_table

MOST = 20
"""The number of directories that the answer names; it only counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededDirectory:
    """A directory that a partition was at; its name is `""` in a table without partitions."""

    partition: str
    location: str
    files: int
    bytes: int
    superseded_at: datetime
    grace_until: datetime
    owned_by_hive: bool
    """Whether Hive's side made it: Firn never deletes it. Firn deletes published ones once nobody needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededDirectories:
    """The superseded directories of a table. The `kept` ones belong to Hive, and Firn no longer watches them."""

    directories: int
    bytes: int
    grace_until: datetime | None
    kept_directories: int
    kept_bytes: int
    largest: tuple[SupersededDirectory, ...]


def list_superseded_directories(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> SupersededDirectories:
    """Return the superseded directories that the link knows; it lists none. NotFound without a linked table."""
    relation = find_linked_relation(uow, catalog, full_name)
    linked = load_linked_table(uow, relation)
    watched = list(_list_watched(linked))
    kept = linked.link.superseded
    return SupersededDirectories(
        directories=len(watched),
        bytes=sum(directory.bytes for directory in watched),
        grace_until=max((directory.grace_until for directory in watched), default=None),
        kept_directories=kept.directories,
        kept_bytes=kept.bytes,
        largest=tuple(
            sorted(watched, key=lambda directory: (-directory.bytes, directory.partition, directory.location))[:MOST]
        ),
    )


def _list_watched(linked: LinkedTable) -> Iterator[SupersededDirectory]:
    for name, baseline in linked.baselines.items():
        for directory in baseline.watched:
            yield SupersededDirectory(
                partition=name,
                location=directory.location,
                files=len(directory.files),
                bytes=directory.bytes,
                superseded_at=_moment(directory.since_ns),
                grace_until=_moment(directory.since_ns + linked.when.watch_ns),
                owned_by_hive=is_made_by_hive(linked.relation.id, directory.location),
            )


def _moment(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns / 1e9, UTC)
