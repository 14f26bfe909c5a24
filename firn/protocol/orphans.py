"""Batches of orphan files: their states."""

from __future__ import annotations

from enum import StrEnum


class BatchState(StrEnum):
    """How far a batch has come. What was moved at all is told by the storage, not by the state."""

    MOVING = "moving"  # its report may be missing; any part of its files may be aside
    ASIDE = "aside"  # moved, and can be put back
    NOTED = "noted"  # left in place, where the store cannot rename: looked at again when its time is over
    DELETING = "deleting"  # there is no way back
    DELETED = "deleted"
    LOST = "lost"  # its report is gone, as when somebody has emptied the quarantine: nothing is deleted or put back
