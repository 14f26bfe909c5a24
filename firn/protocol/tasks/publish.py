"""The task of a publish: the partitions to write for Hive, their columns, and the directory."""

from __future__ import annotations

from typing import Literal

from firn.protocol.base import Message, Task
from firn.protocol.tasks.sync import HiveColumn


class Partition(Message):
    """A partition by Hive's name, its values as Hive spells them, None for null, and the format that Hive reads there.

    A table without partitions is one unit with an empty name.
    """

    name: str
    values: list[str | None]
    format: Literal["PARQUET", "ORC", "AVRO"] = "PARQUET"


class PublishTask(Task):
    """One publish. `own_columns` are columns that only the table has: Hive's readers ignore them.

    `base` is a base store under a pinned name, or a plain table to be read as of `snapshot`. If `private`, some of the
    replaced directories are not for everybody. Then nobody else may enter `root` until the server has set permissions.
    """

    base: list[str]
    snapshot: int | None
    columns: list[HiveColumn]
    own_columns: list[str]
    partition_columns: list[HiveColumn]
    partitions: list[Partition]
    root: str
    private: bool = False


class PublishReport(Message):
    """The server's answer to the written files."""

    partitions: int
    files: int
    bytes: int
    rows: int
    switched: int
    skipped: int
    remaining: int
