"""Dropped tables, views and namespaces: kinds and states."""

from __future__ import annotations

from enum import StrEnum


class DroppedKind(StrEnum):
    """What was dropped."""

    TABLE = "table"
    VIEW = "view"
    KEYED = "keyed"
    NAMESPACE = "namespace"  # with all that was in it, which is listed beside it


class DroppedState(StrEnum):
    """What can still be done about it."""

    DROPPED = "dropped"  # it can be brought back
    PURGING = "purging"  # its files are being deleted: there is no way back


class FilesState(StrEnum):
    """Whether an entry's files exist, judged by its metadata files alone."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"  # the storage does not answer
