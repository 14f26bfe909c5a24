"""Lists of tables: the kinds of tables, and the orders."""

from __future__ import annotations

from enum import StrEnum


class TableKind(StrEnum):
    """The kind of a listed table."""

    PLAIN = "plain"
    KEYED = "keyed"
    VIEW = "view"


class Sort(StrEnum):
    """The order of a list of tables; the worst, largest or newest comes first."""

    NAME = "name"
    HEALTH = "health"
    SIZE = "size"
    FILES = "files"
    PENDING = "pending"
    LAST_COMMIT = "last_commit"
