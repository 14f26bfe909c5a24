"""Dropped tables, views and namespaces: kinds and states."""

from __future__ import annotations

from enum import StrEnum


class DroppedKind(StrEnum):
    """The kind of a dropped object."""

    TABLE = "table"
    VIEW = "view"
    KEYED = "keyed"
    NAMESPACE = "namespace"  # with its tables and views, which have entries of their own


class DroppedState(StrEnum):
    """The state of a dropped object."""

    DROPPED = "dropped"  # an undrop can restore it
    PURGING = "purging"  # the server deletes its files: nobody can restore it


class FilesState(StrEnum):
    """Whether an entry's files exist, judged by its metadata files alone."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"  # the storage does not answer
