"""The database's record of the server that does background work; errors as in catalog.ports.store."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Leaders(Protocol):
    """The server that does the background work."""

    def claim(self, holder: str, *, now: datetime, until: datetime) -> int | None:
        """Take or renew the leadership; returns its term, or None while another server holds it."""

    def holds(self, holder: str, term: int) -> bool:
        """Whether this is the holder's current term. If so, it stays current until the transaction ends."""
