"""Answers about the quarantine of a keyed table."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.answers.writers import WriterOut
from firn.protocol.base import Message, Out


class QuarantineOut(Out):
    """The quarantine of a table, whose rows are in the Iceberg table of this name. No snapshot: no record was bad."""

    table: str
    rows: int
    snapshot_id: str | None
    changed_at: datetime | None


class QuarantineReason(Message):
    """How many records of the quarantine have this reason, and the column if one column is the cause."""

    reason: str
    column: str | None
    records: int


class RecordHeader(Message):
    """A header of a record."""

    name: str
    value: str | None


class QuarantineRecord(Message):
    """A bad record of a log.

    `partition` and `offset` name it in the topic of this id. `key` and `value` are texts, or hexadecimal after `0x` if
    they are not UTF-8; both are null in lists. `cut` names fields that are longer than the answer shows.
    """

    topic_id: str | None
    partition: int
    offset: int
    timestamp: datetime | None
    reason: str
    column: str | None
    at: datetime | None
    key: str | None
    value: str | None
    headers: list[RecordHeader]
    cut: list[str]


class QuarantineRecordsOut(Out):
    """The reasons of all records in a quarantine, most frequent first, and the newest records."""

    snapshot_id: str | None
    total: int
    reasons: list[QuarantineReason]
    records: list[QuarantineRecord]


class QuarantineWriterOut(Out):
    """The registration of a drain at the quarantine of its table; no writer if there is no quarantine."""

    writer: WriterOut | None
