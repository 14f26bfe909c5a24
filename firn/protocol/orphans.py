"""Batches of orphan files: their states."""

from __future__ import annotations

from enum import StrEnum


class BatchState(StrEnum):
    """The state of a batch. Only the storage shows which files were moved, not the state."""

    MOVING = "moving"  # some of its files may be in quarantine; its report may be missing
    ASIDE = "aside"  # in quarantine; the server can put them back
    NOTED = "noted"  # left in place, because the store cannot rename; the server checks them again later
    DELETING = "deleting"  # nobody can put them back
    DELETED = "deleted"
    LOST = "lost"  # its report is gone, so the server neither deletes nor puts back its files
