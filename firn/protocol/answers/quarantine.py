"""Answers about the quarantine of a keyed table."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.answers.writers import WriterOut
from firn.protocol.base import Out


class QuarantineOut(Out):
    """The quarantine of a table, whose rows are in the Iceberg table of this name. No snapshot: no record was bad."""

    table: str
    rows: int
    snapshot_id: str | None
    changed_at: datetime | None


class QuarantineWriterOut(Out):
    """The registration of a drain at the quarantine of its table; no writer if there is no quarantine."""

    writer: WriterOut | None
