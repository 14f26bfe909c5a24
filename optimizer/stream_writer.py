"""The copy of the log's writer that a lease of a stream has registered."""

from __future__ import annotations

from datetime import UTC, datetime

from firn.protocol.answers.writers import WriterOut
from firn.protocol.streams import StreamLease


def build_writer(lease: StreamLease) -> WriterOut:
    """The registration that came with the lease."""
    return WriterOut(
        name=lease.writer,
        epoch=lease.writer_epoch,
        position=lease.position,
        registered_at=datetime.now(UTC),
        registered_by=None,
        committed_at=None,
        snapshot_id=None,
        fenced_at=None,
    )
