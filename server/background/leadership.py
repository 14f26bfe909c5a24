"""Of several servers on one database, one does the background work."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from catalog.ports.store import Database


def _who() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


@dataclass
class Leadership:
    """A claim in the database, renewed while it is used; another server takes over once it lapses.

    Correctness does not rest on it: jobs are claimed and committed by compare-and-set. It saves work.
    """

    database: Database
    lasts: timedelta
    holder: str = field(default_factory=_who)
    _held_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def leads(self) -> bool:
        """Whether this server leads now."""
        with self._lock:
            if time.monotonic() < self._held_until:
                return True
            with self.database.writing() as uow:
                now = uow.now()
                claimed = uow.leaders.claim(self.holder, now=now, until=now + self.lasts)
            self._held_until = time.monotonic() + self.lasts.total_seconds() / 3 if claimed else 0.0
            return claimed
