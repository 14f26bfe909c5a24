"""Ports of orphan removal to the database and the storage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.jobs.job import JobId
from catalog.locations.location_rule import FileRule
from catalog.names import RelationId
from catalog.ports.page import Page
from catalog.removal.orphan_removal import OrphanBatch, SeenFile
from firn.protocol.orphans import BatchState


class OrphanBatches(Protocol):
    """Batches of orphans. Reports in the warehouse hold the names of the files."""

    def add(self, batch: OrphanBatch) -> None: ...

    def lock(self, batch_id: UUID) -> OrphanBatch:
        """The batch, locked until this transaction ends; NotFound if it is gone."""

    def put(self, batch: OrphanBatch) -> None: ...
    def remove(self, batch_id: UUID) -> None: ...

    def of_table(self, relation_id: RelationId, states: Collection[BatchState]) -> Sequence[OrphanBatch]:
        """Oldest first."""

    def find_restored(self, relation_id: RelationId) -> Collection[str]:
        """All files of a table that were restored, or turned out to be needed."""

    def list(
        self,
        *,
        relation_id: RelationId | None = None,
        job_id: JobId | None = None,
        states: Collection[BatchState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[OrphanBatch]:
        """Batches by table, by the job that took or deleted them, and by state; oldest first."""


class QuarantineFiles(Protocol):
    """Files as their stores describe them, and moves within a store. Unavailable if a store does not answer."""

    def inspect(self, locations: Sequence[str]) -> Sequence[SeenFile | None]:
        """The current state of each file; None for a missing one."""

    def is_below(self, location: str, directory: str) -> bool:
        """Whether a file lies in or below a directory, with links followed where the store has links."""

    def clock(self, directory: str) -> datetime | None:
        """The store's time, read from a new file; None if the store gives no times."""

    def names(self, directory: str) -> Sequence[str]:
        """The files directly in a directory; none if it does not exist."""

    def can_move(self, location: str, directory: str) -> bool:
        """Whether the store moves files between these directories at once, without copying."""

    def move(self, location: str, to: str) -> None:
        """NotFound if the file is missing; AlreadyExists if the target exists."""

    def is_moved(self, location: str, to: str) -> bool:
        """Whether only the target exists. Undoes an interrupted move first."""


class NamedFiles(Protocol):
    """Files that metadata names. NotFound for a missing file, Unavailable if the storage does not answer."""

    def confined(self, rule: FileRule) -> NamedFiles:
        """A reader that raises LocationRefused for a file that the rule's table may not name."""

    def manifests(self, manifest_list: str) -> Sequence[str]:
        """The manifests in a manifest list."""

    def named(self, manifest: str) -> Sequence[str]:
        """All files that a manifest names, including deleted ones."""
