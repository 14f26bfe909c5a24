"""Lists of tables: which are listed, and in which order."""

from __future__ import annotations

from enum import StrEnum


class TableKind(StrEnum):
    """What kind of table is listed."""

    PLAIN = "plain"
    KEYED = "keyed"
    VIEW = "view"


class Sort(StrEnum):
    """What a list of tables is sorted by; the worst, largest or newest first."""

    NAME = "name"
    HEALTH = "health"
    SIZE = "size"
    FILES = "files"
    PENDING = "pending"
    LAST_COMMIT = "last_commit"
