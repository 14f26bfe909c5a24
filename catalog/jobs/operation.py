"""Operations: long work that a person has asked for and the server does itself, such as an upgrade.

An operation is journaled: `journal` holds what is needed to go on or to undo after a crash, and is written before the
step it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NewType
from uuid import UUID

from catalog.errors import Conflict
from catalog.names import CatalogName
from firn.protocol.operations import OperationKind, OperationStatus

OperationId = NewType("OperationId", UUID)
BatchId = NewType("BatchId", UUID)
"""What was started by one request."""

WAITING, BLOCKED, ELIGIBLE = "waiting", "blocked", "eligible"
"""The first phase of all operations, and the last ones of a check; an upgrade may end as blocked, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of long work, its progress and its journal."""

    id: OperationId
    kind: OperationKind
    catalog: CatalogName
    target: str
    """What it works on, as people name it: `db.table`."""
    status: OperationStatus
    created_at: datetime
    updated_at: datetime
    params: dict[str, Any] = field(default_factory=dict)
    journal: dict[str, Any] = field(default_factory=dict)
    phase: str = ""
    phase_at: datetime | None = None
    """When this phase began: what is done of it was done since."""
    done: int = 0
    total: int = 0
    unit: str = ""
    cancel_requested: bool = False
    error: str | None = None
    hint: str | None = None
    result: dict[str, Any] = field(default_factory=dict)
    ended_at: datetime | None = None
    batch: BatchId | None = None

    @property
    def outcome(self) -> str:
        """See `read_outcome`."""
        return read_outcome(self.kind, self.status, self.phase)

    @property
    def has_begun(self) -> bool:
        """Whether anything may have been written for it."""
        return self.phase != WAITING

    @property
    def allowed_actions(self) -> list[str]:
        """What may be done to it now."""
        if self.status.is_final or self.cancel_requested:
            return []
        turn = "resume" if self.status is OperationStatus.PAUSED else "pause"
        return [turn, "cancel"] if self.kind.can_pause else ["cancel"]


def read_outcome(kind: OperationKind, status: OperationStatus, phase: str) -> str:
    """Where an operation stands, in one word: its status, or what people want to know instead."""
    if status is OperationStatus.RUNNING:
        return WAITING if phase == WAITING else str(status)
    if phase == BLOCKED or (kind is OperationKind.CHECK and status is OperationStatus.SUCCEEDED):
        return phase
    is_upgraded = kind is OperationKind.UPGRADE and status is OperationStatus.SUCCEEDED
    return "upgraded" if is_upgraded else str(status)


def pause_operation(operation: Operation, now: datetime) -> Operation:
    """It stops at its next step, and begins anew once resumed; Conflict when it cannot be paused."""
    if operation.status is OperationStatus.PAUSED:
        return operation
    _check_can(operation, "pause", "be paused")
    return replace(operation, status=OperationStatus.PAUSED, updated_at=now)


def resume_operation(operation: Operation, now: datetime) -> Operation:
    """It goes on, when its turn comes; Conflict when it is not paused."""
    _check_can(operation, "resume", "be resumed")
    return replace(operation, status=OperationStatus.RUNNING, updated_at=now)


def to_cancel(operation: Operation, now: datetime) -> Operation:
    """It ends at its next step, or now if it has not begun; Conflict when it has ended.

    A paused one runs again to clear away what it has left.
    """
    if operation.status.is_final:
        raise Conflict(f"the {operation.kind} of {operation.target} has {operation.status} already")
    if operation.kind.can_pause and not operation.has_begun:
        ended = replace(operation, status=OperationStatus.CANCELED, error="canceled")
        return replace(ended, cancel_requested=True, ended_at=now, updated_at=now)
    return replace(operation, status=OperationStatus.RUNNING, cancel_requested=True)


def _check_can(operation: Operation, verb: str, passive: str) -> None:
    if verb in operation.allowed_actions:
        return
    where = "being canceled" if operation.cancel_requested and not operation.status.is_final else operation.status
    raise Conflict(f"the {operation.kind} of {operation.target} cannot {passive}: it is {where}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many operations of a batch stand where."""

    catalog: CatalogName
    kind: OperationKind
    outcomes: Mapping[str, int]
    created_at: datetime

    @property
    def allowed_actions(self) -> list[str]:
        """What may be done to some of them now."""
        runs = any(self.outcomes.get(one) for one in (WAITING, OperationStatus.RUNNING))
        is_paused = bool(self.outcomes.get(OperationStatus.PAUSED))
        return [*["pause"] * runs, *["resume"] * is_paused, *["cancel"] * (runs or is_paused)]
