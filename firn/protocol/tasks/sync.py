"""The task of a sync: which Hive files to read, as what, and which partitions to build anew."""

from __future__ import annotations

from typing import Literal

from firn.protocol.base import Message, Task
from firn.protocol.tasks.merge import MergeTask


class HiveColumn(Message):
    """A column as Hive has it; `name` is the table's name for it, None when the table has it no more."""

    hive: str
    type: str
    name: str | None


class HiveFile(Message):
    """A file to read. `source` is the identity that changes out of it carry; `added` says that it is new."""

    location: str
    source: str
    mtime_ns: int
    added: bool


class HiveUnit(Message):
    """A partition (or a whole table without partitions): its values as Hive spells them, None for null.

    Whoever wrote what Hive lists there could know the changes up to `knew`.
    """

    values: list[str | None]
    files: list[HiveFile]
    knew: int
    format: Literal["PARQUET", "ORC", "AVRO"] = "PARQUET"


class Behind(Message):
    """Partitions that Hive was given less than others: the changes up to `through`."""

    through: int
    partitions: list[list[str | None]]


class Replay(Message):
    """What a rebuild reads besides Hive's files: base as it is, and all changes there ever were.

    `first` is the change store's first snapshot under a pinned name, None while it has none; `is_whole` says whether
    every snapshot since is still there. `sql` is over the views `baseline` and `history`, which the optimizer makes.
    """

    base: list[str]
    first: list[str] | None
    first_id: int | None
    last_id: int | None
    is_whole: bool
    baseline: str
    history: str
    sql: dict[str, str]


class SyncTask(Task):
    """One sync. `dead` are sources that Hive lists no more: a rebuild leaves their changes out.

    Hive's own files contain the changes up to `since`, so a rebuild does not replay them. A publish gave Hive the later
    changes up to `published_through` too. The partitions in `behind` got fewer: each names the changes that it got.
    """

    mode: Literal["upsert", "rebuild"]
    writer: str
    batch: str
    columns: list[HiveColumn]
    partition_columns: list[HiveColumn]
    units: list[HiveUnit]
    dead: list[str]
    since: int
    published_through: int
    behind: list[Behind]
    merge: MergeTask
    replay: Replay

    @property
    def files(self) -> int:
        """How many files there are to read."""
        return sum(len(unit.files) for unit in self.units)
