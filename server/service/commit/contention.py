"""Remembers the tables to which other servers commit; there this server waits for a turn before it tries a commit.

A server that loses a race knows of the others. A server that wins sees a table version that it has not written itself.
Without the second sign the winner would keep winning, and the other would wait for its turn and lose again.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from cachetools import LRUCache, TTLCache

TABLES = 10_000
"""How many tables a server remembers; commits to others do not wait for a turn."""

SECONDS = 5
"""How long contention counts. Once the other servers are gone, each commit asks the database for a turn in vain."""


@dataclass(frozen=True)
class Contention:
    """The tables with contention; any number of threads may use it."""

    _versions: LRUCache[Hashable, int] = field(default_factory=lambda: LRUCache(TABLES))
    _contended: TTLCache[Hashable, bool] = field(default_factory=lambda: TTLCache(TABLES, SECONDS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_contended(self, table: Hashable) -> bool:
        """Whether other servers have recently committed to the table."""
        with self._lock:
            return table in self._contended

    def note_conflict(self, table: Hashable) -> None:
        """Record that another server has won a race at the table."""
        with self._lock:
            self._contended[table] = True

    def note_version_before(self, table: Hashable, version: int) -> None:
        """Record the version before a commit; a version that this server has not written shows other servers."""
        with self._lock:
            if version > self._versions.get(table, version):
                self._contended[table] = True

    def note_version_after(self, table: Hashable, version: int) -> None:
        """Record the version that a commit of this server has written."""
        with self._lock:
            self._versions[table] = version
