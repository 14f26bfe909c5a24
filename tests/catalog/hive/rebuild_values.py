"""Values of the model of rebuilds: rows, changes, and directories that Hive and Firn have written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Key = str
Part = str


class Row(NamedTuple):
    """A key's row, and where it lies."""

    part: Part
    value: int


class Change(NamedTuple):
    seq: int
    key: Key
    row: Row | None
    """None deletes."""
    source: str | None = None


@dataclass(frozen=True)
class Rules:
    """The rules of a rebuild; each one is needed."""

    dead_for_good: bool = True
    """A source that has vanished once is left out of every later rebuild too, not only of that one."""
    lost_keys: bool = True
    """Keys that have lost a change with its file are replayed: the change before that counts again."""
    taken_stay: bool = True
    """A row of a file that is not new loses to base's row of another partition: that was decided before."""
    refills: bool = True
    """What comes into a partition soon after files of it vanished belongs to one overwrite: it is rebuilt again."""
    moves: bool = True
    """A file that was another partition's a moment ago is no news: the partition that it came to is rebuilt."""
    renames: bool = True
    """A file is known again by what it holds and when it was written, whatever it is called after a move."""
    copies: bool = True
    """So is one that is still listed where it was: it was copied, or moved after that directory was listed."""
    moved_know: bool = True
    """A moved file holds the changes that the partition was given from which it comes, and no others."""
    moved_are_known: bool = True
    """Rows of a file that was moved win over no row of another partition that they had lost to before."""
    skip_published: bool = True
    """What Hive was given with a publish is not replayed: its side may have removed it since."""
    reread: bool = True
    """Where a key has lost a change, partitions that are not published are read again: Hive may list the key there."""
    apart: bool = True
    """What Hive was given is told apart by partition: a replay leaves out what was given where it matters, no more."""
    watch: bool = True
    """What is written to a directory after the metastore was pointed elsewhere counts, too."""


@dataclass
class Watched:
    """A directory that the metastore pointed at before a publish: what a sync has seen in it, and what it holds."""

    part: Part
    listed: dict[str, dict[Key, int]]
    files: dict[str, dict[Key, int]]
    published: int
    """The changes that its files contain."""

    @property
    def is_overwritten(self) -> bool:
        """Files that only go are no news: somebody has cleared up where nobody reads."""
        return bool(self.listed.keys() - self.files.keys() and self.files.keys() - self.listed.keys())


@dataclass
class Found:
    """What is read of a partition that is built anew, and what of it was known before."""

    files: dict[str, dict[Key, int]]
    known: dict[str, dict[Key, int]]


def replayed(rows: dict[Key, list[Row]], changes: list[Change]) -> dict[Key, list[Row]]:
    result = dict(rows)
    for change in changes:
        result.pop(change.key, None)
        if change.row is not None:
            result[change.key] = [change.row]
    return result
