"""Long work that the server does itself: where it stands."""

from __future__ import annotations

from enum import StrEnum


class OperationStatus(StrEnum):
    """Where an operation stands."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (OperationStatus.RUNNING, OperationStatus.PAUSED)
