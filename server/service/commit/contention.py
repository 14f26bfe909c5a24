"""At which tables this server has lately met others: there it takes turns with them before it tries a commit.

Who loses a race knows of the others; who wins sees it by the table, which is further on than this server left it.
Without that the winner would go on winning, and the other would wait for its turn and lose again.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from cachetools import LRUCache, TTLCache

TABLES = 10_000
"""How many are remembered; at one that is forgotten a commit is tried at once, as at every other."""

SECONDS = 5
"""How long a meeting counts. Where the others are gone each commit asks the database for a turn in vain."""


@dataclass(frozen=True)
class Contention:
    """Safe to use from any number of threads."""

    _left: LRUCache[Hashable, int] = field(default_factory=lambda: LRUCache(TABLES))
    _met: TTLCache[Hashable, bool] = field(default_factory=lambda: TTLCache(TABLES, SECONDS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_contended(self, table: Hashable) -> bool:
        """Whether others were met here."""
        with self._lock:
            return table in self._met

    def note_conflict(self, table: Hashable) -> None:
        """Others are here."""
        with self._lock:
            self._met[table] = True

    def note_version_before(self, table: Hashable, version: int) -> None:
        """The table is at this version before a commit; further on than it was left, others are here."""
        with self._lock:
            if version > self._left.get(table, version):
                self._met[table] = True

    def note_version_after(self, table: Hashable, version: int) -> None:
        """A commit of this server has brought the table to this version."""
        with self._lock:
            self._left[table] = version
