"""Answers about the quarantine of a keyed table."""

from __future__ import annotations

from firn.protocol.answers.writers import WriterOut
from firn.protocol.base import Out


class QuarantineWriterOut(Out):
    """The registration of a drain at the quarantine of its table; no writer if there is no quarantine."""

    writer: WriterOut | None
