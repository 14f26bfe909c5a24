"""Answers about operations, the long work of the server itself, and about batches of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from firn.protocol.base import Open, Out
from firn.protocol.operations import OperationKind, OperationStatus


class OperationOut(Out):
    """A long task of the server. `allowed_actions` names the actions that are allowed now.

    `phase` is the current step, a `DowngradePhase` for a downgrade; `message` says what it waits for or does.
    """

    id: UUID
    kind: Open[OperationKind]
    catalog: str
    target: str
    status: OperationStatus
    outcome: str
    batch: UUID | None
    phase: str
    phase_at: datetime | None
    message: str
    done: int
    total: int
    unit: str
    error: str | None
    hint: str | None
    result: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    allowed_actions: list[str]


class BatchOut(Out):
    """The operations of one request: their number by outcome, and the actions that are allowed on all of them."""

    id: UUID
    kind: Open[OperationKind]
    tables: int
    unfinished: int
    outcomes: dict[str, int]
    created_at: datetime
    allowed_actions: list[str]


class StartedOut(Out):
    """The started batch, or null if there is nothing to do. `skipped` names the skipped tables with the reasons.

    `unused_keys` counts the keys of the file whose tables are not among the started ones.
    """

    batch: BatchOut | None
    skipped: dict[str, str]
    unused_keys: int = 0
