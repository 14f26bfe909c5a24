"""Directories that publishes have replaced: which of their files Hive may still read.

The answer errs on the safe side: two spellings that may be the same directory count as the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from catalog.hive.baseline import PartitionBaseline
from catalog.locations.readings import list_readings
from catalog.names import RelationId


@dataclass(frozen=True, slots=True)
class FilesInUse:
    """Directories that Hive may read or write for a linked table."""

    relation_id: RelationId
    names: frozenset[str]

    @classmethod
    def of(cls, relation_id: RelationId, directories: Iterable[str]) -> Self:
        """Build it from locations of directories."""
        return cls(relation_id, frozenset(name for directory in directories for name in _names(relation_id, directory)))

    def holds(self, location: str) -> bool:
        """Whether a file is in or below one of the directories."""
        return any(above in self.names for name in _names(self.relation_id, location) for above in _lineage(name))


def list_known_directories(baselines: Iterable[PartitionBaseline]) -> Iterator[str]:
    """List all directories of a table's partitions: the present ones, the published ones, and the watched ones."""
    for baseline in baselines:
        yield baseline.location
        if baseline.publishing is not None:
            yield baseline.publishing.location
        yield from (directory.location for directory in baseline.watched)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededTotals:
    """The size of Hive's own directories that publishes replaced and that Firn no longer watches."""

    directories: int = 0
    bytes: int = 0


def is_made_by_hive(relation_id: RelationId, location: str) -> bool:
    """Whether Hive's side made a directory. A directory of a publish has the table's id in its path."""
    return f"/{relation_id}/" not in f"{location}/"


def add_kept_directories(
    relation_id: RelationId,
    before: SupersededTotals,
    baselines: Iterable[PartitionBaseline],
    unwatched: Collection[str],
) -> SupersededTotals:
    """The totals after Firn has stopped watching these directories."""
    ended = set(unwatched)
    watched = [directory for baseline in baselines for directory in baseline.watched] if ended else []
    mine = [
        directory
        for directory in watched
        if directory.location in ended and is_made_by_hive(relation_id, directory.location)
    ]
    return SupersededTotals(
        directories=before.directories + len(mine), bytes=before.bytes + sum(directory.bytes for directory in mine)
    )


def _names(relation_id: RelationId, location: str) -> Iterator[str]:
    """The names by which locations are compared: all readings of a location, and its part from the table's id on.

    The latter identifies a published directory under any scheme, host or mount.
    """
    for reading in list_readings(location):
        yield reading.casefold()
        _, separator, below = f"{reading}/".casefold().partition(f"/{relation_id}/")
        if separator:
            yield f"{relation_id}/{below}".rstrip("/")


def _lineage(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]
