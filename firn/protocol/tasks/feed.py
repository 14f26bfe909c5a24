"""The task of reading a few changes of a keyed table for people, and its answer (docs/changes.md)."""

from __future__ import annotations

from firn.protocol.answers.changes import ChangedRow, ChangePlan
from firn.protocol.base import Message, Task


class FeedTask(Task):
    """Net changes of a keyed table to be shown.

    `base_metadata` and `change_metadata` are locations of metadata files that have the snapshots of the plan. The
    answer has at most `most_rows` changes and about `most_characters` of values. Nothing is read if the data files are
    larger than `most_bytes` together.
    """

    base_metadata: str
    change_metadata: str
    plan: ChangePlan
    most_rows: int
    most_characters: int
    most_bytes: int
    file_io: dict[str, str] = {}


class FeedRows(Message):
    """The number of changes, and the first of them: those of the newest commits come first."""

    total: int
    rows: list[ChangedRow]


class Refusal(Message):
    """Why changes cannot be read, and what to do."""

    message: str
    hint: str | None = None
