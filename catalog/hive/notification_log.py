"""What a metastore's log says that others have changed: hints about what to look at soon, and no more than that.

Entries may be lost, come twice, late or not at all, and many metastores keep no log; a sync goes by what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass

_TABLES_COME_AND_GO = frozenset({"CREATE_TABLE", "DROP_TABLE", "DROP_DATABASE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One entry: something happened to a table or to one of its partitions, or to a database."""

    kind: str
    database: str
    table: str | None = None

    @property
    def full_name(self) -> str | None:
        """The table; of one that was renamed it is one of its two names, depending on the metastore."""
        return f"{self.database}.{self.table}" if self.table else None

    @property
    def lists_anew(self) -> bool:
        """Whether the database has other tables than before."""
        return self.kind in _TABLES_COME_AND_GO

    @property
    def may_rename(self) -> bool:
        """Whether it is how renames are told, among much else."""
        return self.kind == "ALTER_TABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationBatch:
    """A part of the log."""

    upto: int
    """Its last entry: the next part begins behind it."""
    notifications: tuple[Notification, ...] = ()
