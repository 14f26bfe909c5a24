"""Leadership: only one of several servers on a database runs the background work."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from catalog.ports.store import Database, UnitOfWork


def _build_holder_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


@dataclass
class Leadership:
    """A claim in the database, renewed while it is used; another server takes over once it lapses.

    Each time another server takes over a new term begins. Work that must not be done by two servers at once checks its
    term in its own transaction (`fence`): a leader that was paused and wakes finds that its term is over. For the rest
    correctness does not rest on it: jobs are claimed and committed by compare-and-set. It saves work.
    """

    database: Database
    lasts: timedelta
    holder: str = field(default_factory=_build_holder_name)
    _term: int | None = None
    _held_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def leads(self) -> bool:
        """Whether this server leads now."""
        with self._lock:
            if time.monotonic() < self._held_until:
                return True
            with self.database.writing() as uow:
                now = uow.now()
                self._term = uow.leaders.claim(self.holder, now=now, until=now + self.lasts)
            claimed = self._term is not None
            self._held_until = time.monotonic() + self.lasts.total_seconds() / 3 if claimed else 0.0
            return claimed

    def fence(self) -> Fence:
        """Checks, inside a transaction, that the term of this moment is still the current one."""
        with self._lock:
            return Fence(self, self._term)

    def deposed(self) -> None:
        """Forget the claim after another server took over; the next work checks again."""
        with self._lock:
            self._held_until = 0.0


@dataclass(frozen=True)
class Fence:
    """One term of a leadership, which its work checks."""

    leadership: Leadership
    term: int | None

    def __call__(self, uow: UnitOfWork) -> bool:
        """Whether the term is still current; if so, it stays current until the transaction ends."""
        if self.term is not None and uow.leaders.holds(self.leadership.holder, self.term):
            return True
        self.leadership.deposed()
        return False
