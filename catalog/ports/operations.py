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
    """Long work asked for by people: upgrades and the like, with their journals."""

    def add(self, operation: Operation) -> None: ...
    def get(self, operation_id: OperationId) -> Operation: ...
    def lock(self, operation_id: OperationId) -> Operation:
        """As nobody else can change it before the transaction ends."""

    def put(self, operation: Operation) -> None: ...
    def unfinished(self) -> Sequence[Operation]:
        """Those that run, ran when their server died, or are paused; oldest first."""

    def working_on(self, catalog: CatalogName, targets: Collection[str]) -> Mapping[str, Operation]:
        """Unfinished upgrades and downgrades of these tables."""

    def next(
        self, kinds: Collection[OperationKind], *, but_for: Collection[OperationId], limit: int
    ) -> Sequence[Operation]:
        """Those to carry out: what is to be canceled, then what was asked for alone, then batches; oldest first."""

    def list(
        self,
        *,
        catalog: CatalogName | None = None,
        batch: BatchId | None = None,
        target: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """Newest first; those of a batch as they come."""

    def add_all(self, operations: Collection[Operation]) -> None: ...
    def tally(self, batch: BatchId) -> Tally:
        """NotFound when there is no such batch."""

    def targets(self, batch: BatchId) -> Collection[tuple[CatalogName, str]]:
        """What the operations of a batch work on."""

    def pause_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.paused; those that cannot be are left as they are. How many were."""

    def resume_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.resumed."""

    def cancel_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.to_cancel."""

    def forget_checks(self, before: datetime) -> int:
        """Forget checks that ended before; how many."""
