"""Optimizers in the database. Heartbeats and requests change different columns, so none overwrites another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update

from catalog.jobs.job import OptimizerId
from catalog.jobs.optimizer import Optimizer
from server.store.job_rows import OptimizerRow
from server.store.session import ReadSession
from server.store.upsert import upsert


@dataclass(frozen=True)
class SqlOptimizers:
    """See catalog.ports.optimizers.Optimizers."""

    session: ReadSession

    def put(self, optimizer: Optimizer) -> None:
        """Insert or replace an optimizer."""
        values = {name: getattr(optimizer, name) for name in Optimizer.__slots__}
        upsert(self.session, OptimizerRow, {"group_name": values.pop("group"), **values})

    def find(self, optimizer_id: str) -> Optimizer | None:
        """Find an optimizer by id."""
        row = self.session.get(OptimizerRow, optimizer_id)
        return None if row is None else _optimizer(row)

    def record_heartbeat(self, optimizer_id: str, now: datetime, memory: Mapping[str, int]) -> Optimizer | None:
        """Record a heartbeat; None when the optimizer is not registered."""
        values = {"last_seen_at": now, **({"memory": dict(memory)} if memory else {})}
        return self._update(optimizer_id, values)

    def ask(self, optimizer_id: str, *, draining: bool, stopping: bool, reason: str | None) -> Optimizer | None:
        """Record a request to drain or stop; None when the optimizer is not registered."""
        return self._update(optimizer_id, {"draining": draining, "stopping": stopping, "reason": reason})

    def _update(self, optimizer_id: str, values: Mapping[str, Any]) -> Optimizer | None:
        changing = update(OptimizerRow).where(OptimizerRow.id == optimizer_id).values(**values)
        returning = changing.returning(OptimizerRow).execution_options(populate_existing=True)
        row = self.session.scalar(returning)
        return None if row is None else _optimizer(row)

    def list(self) -> Sequence[Optimizer]:
        """List all optimizers by group and id."""
        query = select(OptimizerRow).order_by(OptimizerRow.group_name, OptimizerRow.id)
        return [_optimizer(row) for row in self.session.scalars(query)]

    def remove(self, optimizer_id: str) -> None:
        """Remove an optimizer."""
        self.session.execute(delete(OptimizerRow).where(OptimizerRow.id == optimizer_id))


def _optimizer(row: OptimizerRow) -> Optimizer:
    same = {name: getattr(row, name) for name in Optimizer.__slots__ if name not in ("id", "group")}
    return Optimizer(id=OptimizerId(row.id), group=row.group_name, **same)
