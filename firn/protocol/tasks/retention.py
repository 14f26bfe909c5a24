"""The tasks of expiry, time to live, tags and statistics."""

from __future__ import annotations

from firn.protocol.base import Message, Task
from firn.protocol.tasks.merge import MergeTask


class ExpireTable(Message):
    """The snapshots of one table that nobody needs, and the refs whose time is over with where each was seen."""

    parts: list[str]
    table_uuid: str
    snapshot_ids: list[int]
    refs: dict[str, int]


class ExpireTask(Task):
    """All tables of one expiry: a plain one, or both stores of a keyed one."""

    tables: list[ExpireTable]


class KeyedTtl(Message):
    """What a keyed table's rows need besides: a merge of everything pending, and SQL over both stores.

    `concerned` finds pending changes that are about rows that are too old, `leaving` is the source of a MERGE that
    takes these out, `staying` is the table without them.
    """

    merge: MergeTask
    concerned: str | None
    leaving: str | None
    staying: str


class TtlTask(Task):
    """Which rows of a plain table, or of a base store, are too old."""

    parts: list[str]
    condition: str
    cutoff: str
    whole_partitions: bool
    keyed: KeyedTtl | None


class NewTag(Message):
    """A tag to be made, of the snapshot that was current at its moment."""

    name: str
    snapshot_id: int
    max_ref_age_ms: int


class TagsTask(Task):
    """Tags to be made and dropped, and why some cannot be made."""

    parts: list[str]
    table_uuid: str
    make: list[NewTag]
    drop: dict[str, int]
    missed: dict[str, str]


class StatisticsTask(Task):
    """Columns of a snapshot whose distinct values are to be counted; none when that was done."""

    parts: list[str]
    snapshot_id: int | None
    columns: list[str]
