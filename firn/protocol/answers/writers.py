"""Answers about writers, which bring the records of a source to a table."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.base import Out


class WriterOut(Out):
    """One writer. `position` is null before its first commit; `snapshot_id` brought the table to the position."""

    name: str
    epoch: int
    position: str | None
    registered_at: datetime
    registered_by: str | None
    committed_at: datetime | None
    snapshot_id: str | None
    fenced_at: datetime | None

    def summary_to(self, position: str) -> dict[str, str]:
        """The entries for the summary of the snapshot that brings the table from here to `position`."""
        return {
            "firn.writer-id": self.name,
            "firn.writer-epoch": str(self.epoch),
            "firn.position-from": self.position or "none",
            "firn.position": position,
        }
