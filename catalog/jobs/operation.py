"""Operations: long work that a user requested and the server does itself, such as an upgrade.

The server journals an operation. `journal` holds the facts to continue or undo it after a crash; the server writes
them before each step.
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
"""The operations of one request."""

WAITING, BLOCKED, ELIGIBLE = "waiting", "blocked", "eligible"
"""The first phase of all operations, and the last phases of a check. An upgrade may end as blocked too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, its progress and its journal."""

    id: OperationId
    kind: OperationKind
    catalog: CatalogName
    target: str
    """Its table or source, as people name it: `db.table`."""
    status: OperationStatus
    created_at: datetime
    updated_at: datetime
    params: dict[str, Any] = field(default_factory=dict)
    journal: dict[str, Any] = field(default_factory=dict)
    phase: str = ""
    """A `DowngradePhase` for a downgrade; the name of the current step for all others."""
    message: str = ""
    """What the phase waits for or does, for people."""
    phase_at: datetime | None = None
    """When the current phase started; `done` counts from then."""
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
        """Whether it may have written anything."""
        return self.phase != WAITING

    @property
    def allowed_actions(self) -> list[str]:
        """The actions that a user may take now."""
        if self.status.is_final or self.cancel_requested:
            return []
        turn = "resume" if self.status is OperationStatus.PAUSED else "pause"
        return [turn, "cancel"] if self.kind.can_pause else ["cancel"]


def read_outcome(kind: OperationKind, status: OperationStatus, phase: str) -> str:
    """The state of an operation in one word: its status, or for checks and upgrades their finding."""
    if status is OperationStatus.RUNNING:
        return WAITING if phase == WAITING else str(status)
    if phase == BLOCKED or (kind is OperationKind.CHECK and status is OperationStatus.SUCCEEDED):
        return phase
    is_upgraded = kind is OperationKind.UPGRADE and status is OperationStatus.SUCCEEDED
    return "upgraded" if is_upgraded else str(status)


def enter_phase(operation: Operation, phase: str, now: datetime) -> Operation:
    """The operation in this phase, since now unless it was in it already."""
    since = operation.phase_at if operation.phase == phase else now
    return replace(operation, phase=phase, phase_at=since, updated_at=now)


def pause_operation(operation: Operation, now: datetime) -> Operation:
    """The operation paused: it stops at its next step and restarts when resumed. Conflict if it cannot be paused."""
    if operation.status is OperationStatus.PAUSED:
        return operation
    _check_can(operation, "pause", "be paused")
    return replace(operation, status=OperationStatus.PAUSED, updated_at=now)


def resume_operation(operation: Operation, now: datetime) -> Operation:
    """The operation running again; it continues when its turn comes. Conflict if it is not paused."""
    _check_can(operation, "resume", "be resumed")
    return replace(operation, status=OperationStatus.RUNNING, updated_at=now)


def to_cancel(operation: Operation, now: datetime) -> Operation:
    """The operation with its cancellation requested. It ends at its next step, or now if it has not started.

    Conflict if it has ended. A paused one runs again to clean up.
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
    state = "being canceled" if operation.cancel_requested and not operation.status.is_final else operation.status
    raise Conflict(f"the {operation.kind} of {operation.target} cannot {passive}: it is {state}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of operations of a batch by outcome."""

    catalog: CatalogName
    kind: OperationKind
    outcomes: Mapping[str, int]
    created_at: datetime

    @property
    def allowed_actions(self) -> list[str]:
        """The actions that a user may take on some of them now."""
        runs = any(self.outcomes.get(outcome) for outcome in (WAITING, OperationStatus.RUNNING))
        is_paused = bool(self.outcomes.get(OperationStatus.PAUSED))
        return [*["pause"] * runs, *["resume"] * is_paused, *["cancel"] * (runs or is_paused)]
