"""Linked tables that should be synced before their interval is over."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from catalog.names import RelationId

TRIES = 5
"""The number of syncs after a hint, until nothing is left: files may have to age, and jobs to end."""


@dataclass(frozen=True)
class Hints:
    """Safe to share between threads. A hint that is lost costs nothing but time."""

    _tries: dict[RelationId, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, tables: Collection[RelationId], tries: int = TRIES) -> None:
        """These are due at once."""
        with self._lock:
            self._tries.update({table: max(tries, self._tries.get(table, 0)) for table in tables if tries > 0})

    def take(self) -> dict[RelationId, int]:
        """Take the due tables, each with its remaining tries."""
        with self._lock:
            hints = dict(self._tries)
            self._tries.clear()
        return hints
