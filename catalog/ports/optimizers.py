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

    def saw(self, optimizer_id: str, now: datetime, memory: Mapping[str, int]) -> Optimizer | None:
        """Note that it was heard, and its memory if it told; nothing else of it changes. None: not registered."""

    def ask(self, optimizer_id: str, *, draining: bool, stopping: bool, reason: str | None) -> Optimizer | None:
        """Note what it is asked to do; nothing else of it changes. None: not registered."""

    def list(self) -> Sequence[Optimizer]: ...
    def remove(self, optimizer_id: str) -> None: ...


class Blockers(Protocol):
    """What keeps jobs from tables for a while."""

    def add(self, blocker: Blocker) -> None: ...
    def of(self, relation_ids: Collection[RelationId], now: datetime) -> Mapping[RelationId, Sequence[Blocker]]:
        """Those that have not ended, by table and in the order in which they were set."""

    def remove(self, relation_id: RelationId, blocker_id: BlockerId | None = None) -> int:
        """This one of a table, or all of them; how many there were."""

    def remove_before(self, moment: datetime) -> int:
        """Forget those that ended before; how many."""
