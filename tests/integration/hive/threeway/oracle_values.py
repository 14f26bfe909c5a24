"""Values of the oracle: files, places and partitions of a Hive table, and changes of its keyed table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.integration.keyed.model import Row

Part = str | None
Key = int
WHOLE = ""
"""The one partition of a table without partitions."""


@dataclass(frozen=True)
class File:
    """A data file: what a listing tells it from others by, and its rows in order."""

    directory: str
    name: str
    size: int
    mtime_ns: int
    inode: int
    rows: tuple[Row, ...] = field(compare=False)

    @property
    def looks(self) -> tuple[int, str]:
        """By what it is known again when it was moved: no two writes of a history write the same rows."""
        return self.mtime_ns // 10**9, repr(self.rows)

    @property
    def source(self) -> str:
        return f"{self.directory}/{self.name} at {self.mtime_ns}"


@dataclass(frozen=True)
class Place:
    """A directory that the metastore points at, and its files."""

    location: str
    files: frozenset[File]


Hive = Mapping[Part, Place]
Listed = Callable[[str], frozenset[File]]


@dataclass(frozen=True)
class Left:
    """A directory that a partition was at before: the files of it that are known, and the changes that they hold."""

    location: str
    files: frozenset[File]
    through: int


@dataclass(frozen=True)
class Baseline:
    """What was last taken over of a partition; its files hold the changes up to commit `through`."""

    location: str
    files: frozenset[File]
    through: int
    lost: frozenset[File] = frozenset()
    is_refilling: bool = False
    """Whether it lost files a moment ago: what comes to it belongs to the same overwrite (decision 37)."""
    is_dropped: bool = False
    is_asleep: bool = False
    """Whether nothing is known of a dropped one any more but what it was given."""
    appended: int = 0
    """The last commit that has appended rows of its files to the changes."""
    watched: tuple[Left, ...] = ()

    @property
    def left(self) -> Left:
        return Left(self.location, self.files, self.through)


@dataclass(frozen=True)
class Change:
    commit: int
    key: Key
    row: Row | None
    """None deletes."""
    source: str | None = None


@dataclass(frozen=True)
class Read:
    """A row of a Hive file that a rebuild reads, and whether the file is new to Firn."""

    row: Row
    part: Part
    source: str
    added: bool
    order: tuple[int, str, int]
    knew: int
    """The changes that its file holds."""


def replayed(rows: Mapping[Key, Row], changes: Iterable[Change]) -> dict[Key, Row]:
    result = dict(rows)
    for change in changes:
        result.pop(change.key, None)
        if change.row is not None:
            result[change.key] = change.row
    return result
