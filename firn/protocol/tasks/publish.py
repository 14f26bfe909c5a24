"""The task of a publish: which partitions of a table to write for Hive, as which columns, and where."""

from __future__ import annotations

from typing import Literal

from firn.protocol.base import Message, Task
from firn.protocol.tasks.sync import HiveColumn


class Partition(Message):
    """A partition by Hive's name, its values as Hive spells them, None for null, and the format that Hive reads there.

    A table without partitions is one of no name.
    """

    name: str
    values: list[str | None]
    format: Literal["PARQUET", "ORC", "AVRO"] = "PARQUET"


class PublishTask(Task):
    """One publish. `own_columns` are those of the table that Hive does not know: its readers pass over them.

    `base` is a base store under a pinned name, or a plain table to be read as of `snapshot`.
    """

    base: list[str]
    snapshot: int | None
    columns: list[HiveColumn]
    own_columns: list[str]
    partition_columns: list[HiveColumn]
    partitions: list[Partition]
    root: str


class PublishReport(Message):
    """What became of the files."""

    partitions: int
    files: int
    bytes: int
    rows: int
    switched: int
    skipped: int
    remaining: int
