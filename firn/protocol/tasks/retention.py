"""The tasks of expiry, time to live, tags and statistics."""

from __future__ import annotations

from firn.protocol.base import Message, Task
from firn.protocol.tasks.merge import MergeTask


class ExpireTable(Message):
    """The snapshots of one table that nobody needs, and the expired refs with the snapshot that each names."""

    parts: list[str]
    table_uuid: str
    snapshot_ids: list[int]
    refs: dict[str, int]


class ExpireTask(Task):
    """All tables of one expiry: a plain one, or both stores of a keyed one."""

    tables: list[ExpireTable]


class KeyedTtl(Message):
    """The further facts for a keyed table: a merge of all pending changes, and SQL over both stores.

    `concerned` finds pending changes of expired rows. `leaving` is the source of the MERGE that deletes expired rows.
    `staying` is the table without them.
    """

    merge: MergeTask
    concerned: str | None
    leaving: str | None
    staying: str


class TtlTask(Task):
    """The expired rows of a plain table or of a base store."""

    parts: list[str]
    condition: str
    cutoff: str
    whole_partitions: bool
    keyed: KeyedTtl | None


class NewTag(Message):
    """A tag to create, on the snapshot that was current at the scheduled time."""

    name: str
    snapshot_id: int
    max_ref_age_ms: int


class TagsTask(Task):
    """Tags to create and to drop. `missed` says why the job cannot create some tags."""

    parts: list[str]
    table_uuid: str
    make: list[NewTag]
    drop: dict[str, int]
    missed: dict[str, str]


class StatisticsTask(Task):
    """The columns of a snapshot whose distinct values a job counts; empty if the counts exist."""

    parts: list[str]
    snapshot_id: int | None
    columns: list[str]
