"""Answers about orphan files: the batches in quarantine."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.base import Open, Out
from firn.protocol.orphans import BatchState


class OrphanFileOut(Out):
    """One file of a batch. `state` is the state of the batch, or `put back` for a restored file."""

    path: str
    bytes: int
    modified: datetime | None
    state: str


class OrphanBatchOut(Out):
    """Files that one job removed together. After `deleted_after` the server may delete them for good."""

    job_id: UUID
    state: Open[BatchState]
    taken_at: datetime
    deleted_after: datetime | None
    deleted_at: datetime | None
    deleted_by: UUID | None
    reason: str
    report: str
    files: list[OrphanFileOut]
