"""Directories that a table was published to and Hive has left since: which of its files Hive may still read.

What is in use errs on one side: two ways to write a directory that may be one count as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from catalog.hive.baseline import PartitionBaseline
from catalog.locations.location_rule import list_readings
from catalog.names import RelationId


@dataclass(frozen=True, slots=True)
class FilesInUse:
    """Directories that a linked table's own Hive table reads, or may be pointed at or written to."""

    relation_id: RelationId
    names: frozenset[str]

    @classmethod
    def of(cls, relation_id: RelationId, directories: Iterable[str]) -> Self:
        """Those named here."""
        return cls(relation_id, frozenset(name for one in directories for name in _names(relation_id, one)))

    def holds(self, location: str) -> bool:
        """Whether a file lies in or below one of them."""
        return any(above in self.names for name in _names(self.relation_id, location) for above in _lineage(name))


def list_known_directories(baselines: Iterable[PartitionBaseline]) -> Iterator[str]:
    """Where partitions are by a table's books, are to be pointed at, and were when a writer may have begun."""
    for baseline in baselines:
        yield baseline.location
        if baseline.publishing is not None:
            yield baseline.publishing.location
        yield from (one.location for one in baseline.watched)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredTotals:
    """How much lies in Hive's own directories that publishing replaced and that nobody watches any more."""

    directories: int = 0
    bytes: int = 0


def is_hives(relation_id: RelationId, location: str) -> bool:
    """Whether Hive's side made a directory; those that were published have the table's id in their path."""
    return f"/{relation_id}/" not in f"{location}/"


def update_kept_directories(
    relation_id: RelationId, before: RetiredTotals, baselines: Iterable[PartitionBaseline], unwatched: Collection[str]
) -> RetiredTotals:
    """The totals once these directories are watched no longer."""
    over = set(unwatched)
    watched = [one for baseline in baselines for one in baseline.watched] if over else []
    mine = [one for one in watched if one.location in over and is_hives(relation_id, one.location)]
    return RetiredTotals(
        directories=before.directories + len(mine), bytes=before.bytes + sum(directory.bytes for directory in mine)
    )


def _names(relation_id: RelationId, location: str) -> Iterator[str]:
    """What a location is compared by: how it may be read, and what of it begins with the table's id.

    By the latter a published directory is known under any scheme, host or mount.
    """
    for reading in list_readings(location):
        yield reading.casefold()
        _, found, below = f"{reading}/".casefold().partition(f"/{relation_id}/")
        if found:
            yield f"{relation_id}/{below}".rstrip("/")


def _lineage(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]
