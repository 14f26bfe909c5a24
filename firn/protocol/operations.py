"""Operations, the long work of the server itself: their kinds, states and phases."""

from __future__ import annotations

from enum import StrEnum


class OperationStatus(StrEnum):
    """The state of an operation."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether the state never changes again."""
        return self not in (OperationStatus.RUNNING, OperationStatus.PAUSED)


class OperationKind(StrEnum):
    """The kind of an operation."""

    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    CHECK = "check"
    """The check before an upgrade, alone."""
    IMPORT = "import"

    @property
    def can_pause(self) -> bool:
        """Whether a user can pause it: it resumes by a new start."""
        return self in (OperationKind.UPGRADE, OperationKind.CHECK)


class DowngradePhase(StrEnum):
    """The phase of a downgrade; the operation's message says more."""

    WAITING = "waiting"
    """It waits for another job, for the metastore, or for its next step."""
    SYNCING = "syncing"
    """The table takes over Hive's changes."""
    MERGING = "merging"
    """A job merges pending changes into base."""
    PUBLISHING = "publishing"
    """A job writes the partitions that differ."""
    GRACE_PERIOD = "grace-period"
    """Hive is up to date; Firn watches superseded directories for writers that still know them."""
    DONE = "done"
