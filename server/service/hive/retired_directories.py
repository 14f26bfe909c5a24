"""What a linked table's partitions have left behind: directories that they were published away from, and their bytes.

While a writer may still know such a directory it is watched and the books have its files. After that the link keeps
how much lies in those that are Hive's own: nobody but whoever owns them deletes these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.errors import NotFound
from catalog.hive.retired_directories import is_made_by_hive
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from server.service.hive.link_state import LinkedTable, load_linked_table

MOST = 20
"""Directories that are named; of all others there are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredDirectory:
    """A directory that a partition was at, `""` where the table has none."""

    partition: str
    location: str
    files: int
    bytes: int
    retired_at: datetime
    grace_until: datetime
    owned_by_hive: bool
    """Whether Hive's side made it: it is never deleted from here. Published ones are, once nobody needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredDirectories:
    """What lies in directories that were left; `kept` ones are Hive's own, and not watched any more."""

    directories: int
    bytes: int
    grace_until: datetime | None
    kept_directories: int
    kept_bytes: int
    largest: tuple[RetiredDirectory, ...]


def list_retired_directories(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> RetiredDirectories:
    """By the books: no directory is listed. NotFound when no table is linked to that Hive table."""
    relation = uow.relations.of_hive(catalog, full_name)
    if relation is None:
        raise NotFound(
            f"{catalog} has no table over {full_name}", hint="a partition leaves directories when it is published"
        )
    linked = load_linked_table(uow, relation)
    found = list(_watched(linked))
    kept = linked.link.retired
    return RetiredDirectories(
        directories=len(found),
        bytes=sum(one.bytes for one in found),
        grace_until=max((one.grace_until for one in found), default=None),
        kept_directories=kept.directories,
        kept_bytes=kept.bytes,
        largest=tuple(sorted(found, key=lambda one: (-one.bytes, one.partition, one.location))[:MOST]),
    )


def _watched(linked: LinkedTable) -> Iterator[RetiredDirectory]:
    for name, baseline in linked.baselines.items():
        for one in baseline.watched:
            yield RetiredDirectory(
                partition=name,
                location=one.location,
                files=len(one.files),
                bytes=one.bytes,
                retired_at=_moment(one.since_ns),
                grace_until=_moment(one.since_ns + linked.when.watch_ns),
                owned_by_hive=is_made_by_hive(linked.relation.id, one.location),
            )


def _moment(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns / 1e9, UTC)
