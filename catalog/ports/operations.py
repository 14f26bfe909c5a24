"""The database's operations; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.jobs.operation import BatchId, Operation, OperationId, Tally
from catalog.names import CatalogName
from catalog.ports.page import Page
from firn.protocol.operations import OperationKind


class Operations(Protocol):
    """Long work that users requested, such as upgrades, with its journals."""

    def add(self, operation: Operation) -> None: ...
    def get(self, operation_id: OperationId) -> Operation: ...
    def lock(self, operation_id: OperationId) -> Operation:
        """The operation, locked until the transaction ends."""

    def put(self, operation: Operation) -> None: ...
    def unfinished(self) -> Sequence[Operation]:
        """Operations that run, ran when their server died, or are paused; oldest first."""

    def working_on(self, catalog: CatalogName, targets: Collection[str]) -> Mapping[str, Operation]:
        """Unfinished upgrades and downgrades of these tables."""

    def next(
        self, kinds: Collection[OperationKind], *, but_for: Collection[OperationId], limit: int
    ) -> Sequence[Operation]:
        """The operations to run next: cancellations first, then single requests, then batches; oldest first."""

    def list(
        self,
        *,
        catalog: CatalogName | None = None,
        batch: BatchId | None = None,
        target: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """A page of operations, the newest first; of a batch, the oldest first."""

    def add_all(self, operations: Collection[Operation]) -> None: ...
    def tally(self, batch: BatchId) -> Tally:
        """NotFound if the batch does not exist."""

    def failures(self, batch: BatchId) -> int:
        """The number of failed operations of a batch."""

    def last_ends(self, batch: BatchId, *, limit: int) -> Sequence[datetime]:
        """The times at which the last operations of a batch ended, newest first."""

    def batch_before(self, batch: BatchId, catalog: CatalogName, kind: OperationKind) -> BatchId | None:
        """The last other batch of this kind in the catalog of which an operation has ended."""

    def count_ahead(self, batch: BatchId) -> int:
        """The number of running operations that began or wait before those of a batch."""

    def targets(self, batch: BatchId) -> Collection[tuple[CatalogName, str]]:
        """The targets of a batch's operations."""

    def pause_all(self, batch: BatchId, now: datetime) -> int:
        """Pause the operations that can be paused (see
        catalog.jobs.operation.pause_operation); returns their number.
        """

    def resume_all(self, batch: BatchId, now: datetime) -> int:
        """Resume the paused operations (see catalog.jobs.operation.resume_operation); returns their number."""

    def cancel_all(self, batch: BatchId, now: datetime) -> int:
        """Cancel the unfinished operations (see catalog.jobs.operation.to_cancel); returns their number."""

    def forget_checks(self, before: datetime) -> int:
        """Delete checks that ended before; returns their number."""
