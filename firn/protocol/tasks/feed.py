"""The tasks of reading a few changes or bad records of a keyed table for people, and their answers."""

from __future__ import annotations

from firn.protocol.answers.changes import ChangedRow, ChangePlan
from firn.protocol.answers.quarantine import QuarantineReason, QuarantineRecord
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


class QuarantineTask(Task):
    """Records of a quarantine to be shown, of its newest snapshot.

    With `partition` and `offset` the answer has the records of this place as a whole. Otherwise it has the reasons of
    all records, and the newest `most_records` without keys and values. Nothing is read if the data files are larger
    than `most_bytes` together.
    """

    metadata: str
    partition: int | None = None
    offset: int | None = None
    most_records: int
    most_bytes: int
    file_io: dict[str, str] = {}


class QuarantineRows(Message):
    """The result of a QuarantineTask."""

    total: int
    reasons: list[QuarantineReason]
    records: list[QuarantineRecord]


class Refusal(Message):
    """Why changes cannot be read, and what to do."""

    message: str
    hint: str | None = None
