"""The database's optimizers, and the blockers that keep jobs from tables; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.optimizer import Optimizer
from catalog.names import RelationId


class Optimizers(Protocol):
    """Registered optimizers."""

    def put(self, optimizer: Optimizer) -> None: ...
    def find(self, optimizer_id: str) -> Optimizer | None: ...

    def record_heartbeat(self, optimizer_id: str, now: datetime, memory: Mapping[str, int]) -> Optimizer | None:
        """Record a heartbeat, with the memory if it was sent. All else stays unchanged.
        None if it is not registered.
        """

    def ask(self, optimizer_id: str, *, draining: bool, stopping: bool, reason: str | None) -> Optimizer | None:
        """Record the request to drain or stop. All else stays unchanged. None if it is not registered."""

    def list(self) -> Sequence[Optimizer]: ...
    def remove(self, optimizer_id: str) -> None: ...


class Blockers(Protocol):
    """Blockers, which keep jobs from tables for a while."""

    def add(self, blocker: Blocker) -> None: ...
    def of(self, relation_ids: Collection[RelationId], now: datetime) -> Mapping[RelationId, Sequence[Blocker]]:
        """Blockers that have not ended, by table, in the order of creation."""

    def remove(self, relation_id: RelationId, blocker_id: BlockerId | None = None) -> int:
        """Remove this blocker of a table, or all of them; returns their number."""

    def remove_before(self, moment: datetime) -> int:
        """Delete blockers that ended before; returns their number."""
