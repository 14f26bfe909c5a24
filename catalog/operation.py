"""Operations: long work that a person has asked for and the server does itself, such as an upgrade.

An operation is journaled: `journal` holds what is needed to go on or to undo after a crash, and is written before the
step it speaks of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from catalog.names import CatalogName

OperationId = NewType("OperationId", UUID)


class OperationKind(StrEnum):
    """What is being done."""

    UPGRADE = "upgrade"
    IMPORT = "import"


class OperationStatus(StrEnum):
    """Where an operation stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self is not OperationStatus.RUNNING


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
    done: int = 0
    total: int = 0
    unit: str = ""
    cancel_asked: bool = False
    error: str | None = None
    hint: str | None = None
    result: dict[str, Any] = field(default_factory=dict)
    ended_at: datetime | None = None
