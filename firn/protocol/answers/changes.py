"""Answers about the changes of a table between two versions or snapshots."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from firn.protocol.base import Out


class FeedVersion(Out):
    """One version: a snapshot of each store, and the SQL of its merged rows for a Spark session, if asked for.

    `base` and `change` name the pinned tables of the snapshots, in the namespace of the stores.
    """

    version: int
    committed_at: datetime
    base_snapshot_id: str | None
    change_snapshot_id: str | None
    watermark: int
    base: str
    change: str
    sql: str | None


class FeedCommit(Out):
    """A commit to a store, and the first version that shows it."""

    snapshot_id: str
    parent_id: str | None
    sequence_number: int
    version: int
    committed_at: datetime


class FeedSegment(Out):
    """A part of a feed of each change. Where `direct`, the part's commit changes base without changes."""

    since: FeedVersion
    until: FeedVersion
    direct: bool


class ChangePlan(Out):
    """What a reader needs to compute the changes of a keyed table between two versions.

    `appends` are the commits to the change store, `direct` those to base that change rows by themselves. Both are
    oldest first. If `base_known` is false, base's commits in between have expired, and `direct` may lack some.
    `partial` says that a change may set some of the columns only, `insert_only` that the first row of a key wins.
    """

    primary_key: list[str]
    sequence_field: str | None
    columns: list[str]
    partial: bool
    insert_only: bool
    since: FeedVersion
    until: FeedVersion
    appends: list[FeedCommit]
    direct: list[FeedCommit]
    base_known: bool
    segments: list[FeedSegment]


class ChangedRow(Out):
    """One net change. Values are text; of the columns in `cut` only the beginning is there.

    `columns` are those whose values differ between the rows. `snapshot_id` is the newest commit to the change store
    that has a change of the key; null if base changed without one.
    """

    change_type: str
    key: dict[str, str | None]
    before: dict[str, str | None] | None
    after: dict[str, str | None] | None
    columns: list[str]
    cut: list[str]
    snapshot_id: str | None


class ChangesCommit(Out):
    """A commit between the two versions that changed rows. `store` is `base` if it needed no change of a writer."""

    snapshot_id: str
    store: str
    version: int
    committed_at: datetime
    principal: str | None
    engine: str | None
    writer: str | None
    job_id: str | None
    added_rows: int


class ChangesOut(Out):
    """The net changes after `since`, up to `until`: `total` of them, of which `rows` has the first."""

    since: int
    until: int
    committed_at: datetime
    primary_key: list[str]
    columns: list[str]
    total: int
    rows: list[ChangedRow]
    commits: list[ChangesCommit]


class FileState(Out):
    """A snapshot of a plain table; nulls for the table before its first one."""

    snapshot_id: str | None
    committed_at: datetime | None


class ReadFile(Out):
    """A data file to read, as Iceberg's scan planning writes it, and the numbers of the delete files that apply."""

    data_file: dict[str, Any]
    deletes: list[int]


class ChangedFile(Out):
    """A data file that one of two snapshots does not have, or that has other deletes in the second one."""

    before: ReadFile | None
    after: ReadFile | None


class FileChangesOut(Out):
    """The files from which a reader computes the changes of a plain table after `since`, up to `until`."""

    columns: list[str]
    since: FileState
    until: FileState
    files: list[ChangedFile]
    delete_files: list[dict[str, Any]]
