"""Answers about the changes of a keyed table between two versions."""

from __future__ import annotations

from datetime import datetime

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
    `partial` says that a change may set some of the columns only.
    """

    primary_key: list[str]
    sequence_field: str | None
    columns: list[str]
    partial: bool
    since: FeedVersion
    until: FeedVersion
    appends: list[FeedCommit]
    direct: list[FeedCommit]
    base_known: bool
    segments: list[FeedSegment]
