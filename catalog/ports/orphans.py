"""What orphan removal needs of the database and of the storage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.jobs.job import JobId
from catalog.locations.location_rule import FileRule
from catalog.names import RelationId
from catalog.ports.page import Page
from catalog.removal.orphan_files import OrphanBatch, SeenFile
from firn.protocol.orphans import BatchState


class OrphanBatches(Protocol):
    """What was taken for orphans, batch by batch; the names of the files are in reports in the warehouse."""

    def add(self, batch: OrphanBatch) -> None: ...

    def lock(self, batch_id: UUID) -> OrphanBatch:
        """As nobody else can change it before this transaction ends; NotFound when it is gone."""

    def put(self, batch: OrphanBatch) -> None: ...
    def remove(self, batch_id: UUID) -> None: ...

    def of_table(self, relation_id: RelationId, states: Collection[BatchState]) -> Sequence[OrphanBatch]:
        """Oldest first."""

    def put_back(self, relation_id: RelationId) -> Collection[str]:
        """All files of a table that were put back, or turned out to be needed."""

    def list(
        self,
        *,
        relation_id: RelationId | None = None,
        job_id: JobId | None = None,
        states: Collection[BatchState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[OrphanBatch]:
        """Of a table; what a job has taken or deleted; in one of these states. Oldest first."""


class QuarantineFiles(Protocol):
    """Files as their stores show them, and moved within a store. Unavailable when a store does not answer."""

    def look(self, locations: Sequence[str]) -> Sequence[SeenFile | None]:
        """Each as it is now; None for one that is gone."""

    def is_below(self, location: str, directory: str) -> bool:
        """Whether a file lies in or below a directory when links are followed, as far as its store has any."""

    def clock(self, directory: str) -> datetime | None:
        """What time the store says it is, by a file that is written for it; None when it does not say."""

    def names(self, directory: str) -> Sequence[str]:
        """Locations of the files directly in a directory; none when there is no such directory."""

    def can_move(self, location: str, directory: str) -> bool:
        """Whether files are moved from the one into the other at once, without being copied."""

    def move(self, location: str, to: str) -> None:
        """NotFound when there is nothing to move, AlreadyExists rather than replace anything."""

    def is_moved(self, location: str, to: str) -> bool:
        """Whether the file is at the second place alone; a move that was cut short is taken back first."""


class NamedFiles(Protocol):
    """What metadata leads to. NotFound for a file that is gone, Unavailable when the storage does not answer."""

    def confined(self, rule: FileRule) -> NamedFiles:
        """The same, which raises LocationRefused for a file that the rule's table may not name."""

    def manifests(self, manifest_list: str) -> Sequence[str]:
        """The manifests that a manifest list names."""

    def named(self, manifest: str) -> Sequence[str]:
        """All files that a manifest names, those that it says are deleted too."""
