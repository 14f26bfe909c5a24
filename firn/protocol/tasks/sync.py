"""The task of a sync: the Hive files to read, their columns, and the partitions to rebuild."""

from __future__ import annotations

from typing import Literal

from firn.protocol.base import Message, Task
from firn.protocol.tasks.merge import MergeTask


class HiveColumn(Message):
    """A column of Hive; `name` is its name in the table, None if the table has dropped it."""

    hive: str
    type: str
    name: str | None


class HiveFile(Message):
    """A file to read. The changes from it carry its `source`; an `added` file is new."""

    location: str
    source: str
    mtime_ns: int
    added: bool


class HiveUnit(Message):
    """A partition, or a table without partitions. Values have Hive's spelling, None for null.

    The writer of these files could know the changes up to `knew`.
    """

    values: list[str | None]
    files: list[HiveFile]
    knew: int
    format: Literal["PARQUET", "ORC", "AVRO"] = "PARQUET"


class Behind(Message):
    """Partitions that got fewer changes from publishes than others: only those up to `through`."""

    through: int
    partitions: list[list[str | None]]


class Replay(Message):
    """The input of a rebuild besides Hive's files: base, and the history of the change store.

    `first` is the change store's first snapshot under a pinned name, None if it has no snapshot. `is_whole` says
    whether all snapshots since then exist. `sql` reads the views `baseline` and `history`, which the optimizer creates.
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
        """The number of files to read."""
        return sum(len(unit.files) for unit in self.units)
